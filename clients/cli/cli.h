// The `sluice` program as a function.
#pragma once

#include <string>

#include "absl/types/span.h"
#include "clients/cli/environment.h"

namespace sluice {

// Runs the command that the first argument names with the rest; returns the exit status as in
// exit_code.h.
int RunCli(absl::Span<const std::string> arguments, Environment& environment);

}  // namespace sluice
