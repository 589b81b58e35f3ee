// Reads a prompt from a file or stdin.
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "clients/cli/environment.h"
#include "clients/cli/request_flags.h"

namespace sluice {

// All of a file. NOT_FOUND, PERMISSION_DENIED and the like naming the file;
// RESOURCE_EXHAUSTED for more than 64 MiB, which no server takes.
absl::StatusOr<std::string> ReadFile(const std::string& path);

// The same, or stdin for "-".
absl::StatusOr<std::string> ReadInput(const std::string& path, Environment& environment);

// Makes flags.prompt of --prompt_file, of the PROMPT "-" and, where no prompt was given and stdin
// is no terminal, of stdin; the line break that ends a file is not part of it. `*positional` is the
// argument without a flag. Errors of ReadInput.
absl::Status ReadPrompt(Environment& environment, std::optional<std::string>* positional,
                        RequestFlags* flags);

}  // namespace sluice
