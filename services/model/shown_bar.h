// The progress bar that this process shows on stderr. A program that draws bars calls AllowProgressBars()
// at its start; others, whose terminal shows the log of several processes, write lines. Thread-safe.
#pragma once

#include <string>

namespace sluice {

void AllowProgressBars();
bool ProgressBarsAllowed();

// Whether a bar is on the last line of stderr now.
void SetBarShown(bool shown);
// What erases that bar, to be written before another line in one piece with it; empty without one.
std::string EraseShownBar();

}  // namespace sluice
