// Result of a command: the message on stderr and in the termination log, and the exit code.
// Thread-safe where the environment's streams are.
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "clients/cli/environment.h"
#include "services/options/flags.h"

namespace sluice {

// "sluice: <message> [INVALID_ARGUMENT]" and kFailed; after an interrupt nothing but its exit code.
// REQUIRES: !status.ok().
int Fail(const absl::Status& status, Environment& environment);

// "sluice <command>: <message>", where to find help, and kUsage.
int FailUsage(const std::string& command, const absl::Status& status, Environment& environment);

// Parses the arguments into the flags' variables. An exit status where the command is over with
// that: help was asked for, or the arguments are wrong.
std::optional<int> ParseOrExit(FlagSet& flags, absl::Span<const std::string> arguments,
                               Environment& environment);

// Flushes the result: kSuccess, or kFailed with a message where it could not be written.
int Succeed(Environment& environment);

}  // namespace sluice
