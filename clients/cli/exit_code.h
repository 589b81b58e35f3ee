// Exit codes of the program. A call ended by a signal exits with 128 + its number: 130 after
// Ctrl-C.
#pragma once

namespace sluice {

inline constexpr int kSuccess = 0;
inline constexpr int kFailed = 1;  // the command was understood and did not succeed
inline constexpr int kUsage = 2;   // the command line was not understood

}  // namespace sluice
