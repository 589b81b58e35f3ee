#include "services/model/progress_bar.h"

#include <sys/ioctl.h>

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

constexpr int kWidestBar = 30;
constexpr int kNarrowestBar = 5;
constexpr int kFrame = 3;  // two brackets and a space
// A terminal is narrower a moment before it says so: what is too long then must not go on in the
// next row, from which there would be no way back to this line's first.
constexpr char kWrapNot[] = "\x1b[?7l";
constexpr char kWrap[] = "\x1b[?7h";

}  // namespace

std::string ProgressBar::Draw(double share, std::string_view text, int columns) {
  // The last column stays free: with a character there, some terminals begin a line.
  const int room = std::max(1, columns - 1);
  const int text_width = static_cast<int>(text.size());
  const int bar = std::min(kWidestBar, room - kFrame - text_width);
  std::string line;
  if (bar >= kNarrowestBar) {
    const int filled = static_cast<int>(share * bar);
    line = absl::StrCat("[", std::string(filled, '#'), std::string(bar - filled, '.'), "] ",
                        std::string(text));
  } else if (text_width <= room) {
    line = std::string(text);
  } else {
    // How far it is comes before what it is, of which there is room for a part.
    line = absl::StrCat(static_cast<int>(share * 100), "% ", std::string(text)).substr(0, room);
  }
  // A terminal that was made narrower shows what was drawn before on several rows.
  const int rows_above = std::max(0, width_ - 1) / columns;
  const std::string up = rows_above > 0 ? absl::StrCat("\x1b[", rows_above, "A") : "";
  width_ = static_cast<int>(line.size());
  return absl::StrCat(up, kWrapNot, "\r", line, rows_above > 0 ? "\x1b[J" : "\x1b[K", kWrap);
}

int TerminalColumns(int fd) {
  winsize size = {};
  const bool known = ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : 80;
}

}  // namespace sluice
