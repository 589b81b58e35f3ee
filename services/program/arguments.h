// A program's flags, and how it speaks of itself by them: --log_level, --log_format and
// --termination_log. For main() alone.
#pragma once

#include <optional>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "services/options/option_values.h"

namespace sluice {

// Reads the arguments into `values` and sets up the log and the termination log. An exit code where
// the program is over with that: --help was printed (0), or the arguments are wrong (2), as is said
// on stderr and in the termination log. `description` is what --help says first. To be called
// before there are threads that log.
std::optional<int> ParseArguments(int argc, char** argv, const char* description,
                                  OptionValues& values);

// Why a program does not start: on stderr, where the log does not begin yet, and in the termination
// log. Returns `exit_status`.
int FailAtStart(const char* program, int exit_status, absl::string_view reason);

}  // namespace sluice
