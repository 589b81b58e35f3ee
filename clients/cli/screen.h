// Contents of a terminal screen.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace sluice {

struct ScreenSize {
  int columns = 80;
  int rows = 24;
};

// Of the terminal behind a file descriptor, as it is now; 80 by 24 where there is none or it does
// not say.
ScreenSize ScreenOf(int fd);

// `text` as so many lines that they stand on the screen with the cursor below them: what is longer
// than a line goes on in the next, and the last line says how many found no room. Characters count
// as one column each.
std::string OnScreen(absl::string_view text, const ScreenSize& screen);

}  // namespace sluice
