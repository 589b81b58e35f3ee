// The `sluice` program as a function.
#pragma once

#include <string>

#include "absl/types/span.h"
#include "clients/cli/environment.h"

namespace sluice {

struct Command {
  const char* name;
  const char* summary;  // a line of `sluice help`
  // Takes the arguments after the name; returns the exit status as in exit_code.h.
  int (*run)(absl::Span<const std::string> arguments, Environment& environment);
};

// Runs that one of `commands` which the first argument names, with the rest; returns its exit
// status.
int RunCli(absl::Span<const std::string> arguments, absl::Span<const Command> commands,
           Environment& environment);

}  // namespace sluice
