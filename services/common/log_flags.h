// The flags by which every program is told how it speaks of itself: --log_level, --log_format and
// --termination_log. Linked by main() alone: it defines them.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace sluice {

// Makes the log and the termination log what the flags say. INVALID_ARGUMENT names the flag. To be
// called once the flags are parsed, before there are threads that log.
absl::Status ApplyLogFlags();

// Why a program does not start: on stderr, where the log does not begin yet, and in the termination
// log. Returns `exit_status`.
int FailAtStart(const char* program, int exit_status, absl::string_view reason);

}  // namespace sluice
