// What lines of the log are written behind.
#pragma once

#include <string>

namespace sluice {

// From now on every line of this process is written behind what `prefix` returns, in one piece with it,
// such as what erases a progress bar; null: behind nothing. Called from any thread. Thread-safe.
void SetLogPrefix(std::string (*prefix)());

}  // namespace sluice
