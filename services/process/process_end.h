// Ends a process that hangs, and logs the stacks of all its threads.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace sluice {

// The calls that every thread of this process is in, a few lines for each: its name and number,
// then a function a line, or its address where the program has no symbols. A thread that does not
// answer within 0.2 s (it waits in the kernel for good) is named with what it waits for. For one
// caller at a time.
std::string StacksOfAllThreads();

// Says why in a line of log and in the termination log, then ends the process with exit status 1.
[[noreturn]] void EndWithReason(absl::string_view program, const std::string& reason);

// Says so in the termination log, writes a line of log and all stacks to stderr, then ends the
// process at once: nothing is tidied up, because that might hang as well.
[[noreturn]] void EndWithStacks(absl::string_view program, const std::string& hanging);

}  // namespace sluice
