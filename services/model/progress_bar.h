// A line of progress on a terminal that is drawn again and again in its place: a bar and a text, the
// text alone where a terminal is too narrow at that moment for both, or a percentage and as much of
// the text as there is room for. Not thread-safe.
#pragma once

#include <string>
#include <string_view>

namespace sluice {

class ProgressBar {
 public:
  // What to write to draw it. `share` in [0, 1] of the bar is filled; `columns` >= 1 is how wide
  // the terminal is now. `text` is ASCII.
  std::string Draw(double share, std::string_view text, int columns);

 private:
  int width_ = 0;  // of what was drawn last
};

// Of the terminal behind a file descriptor; 80 where there is none or it does not say.
int TerminalColumns(int fd);

}  // namespace sluice
