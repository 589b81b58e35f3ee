#include "clients/cli/screen.h"

#include <sys/ioctl.h>

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "clients/cli/terminal_text.h"

namespace sluice {

ScreenSize ScreenOf(int fd) {
  winsize size = {};
  if (ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) return {};
  return {.columns = size.ws_col, .rows = size.ws_row};
}

std::string OnScreen(absl::string_view text, const ScreenSize& screen) {
  const auto width = static_cast<size_t>(std::max(screen.columns, 1));
  std::vector<absl::string_view> lines;
  for (absl::string_view line : absl::StrSplit(absl::StripSuffix(text, "\n"), '\n')) {
    do {
      const absl::string_view part = FirstCharacters(line, width);
      lines.push_back(part);
      line.remove_prefix(part.size());
    } while (!line.empty());
  }
  const auto most = static_cast<size_t>(std::max(screen.rows - 1, 1));
  std::string rest;
  if (lines.size() > most) {
    rest = absl::StrCat("... and ", lines.size() - most + 1, " lines more");
    lines.resize(most - 1);
    lines.push_back(FirstCharacters(rest, width));
  }
  return absl::StrCat(absl::StrJoin(lines, "\n"), "\n");
}

}  // namespace sluice
