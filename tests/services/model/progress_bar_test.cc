#include "services/model/progress_bar.h"

#include <gtest/gtest.h>

#include <string>

namespace sluice {
namespace {

// Without what moves the cursor.
std::string Shown(const std::string& drawn) {
  const size_t begin = drawn.find('\r') + 1;
  return drawn.substr(begin, drawn.find('\x1b', begin) - begin);
}

TEST(ProgressBar, IsAsWideAsItMayBe) {
  ProgressBar bar;
  EXPECT_EQ(bar.Draw(0.5, "half", 80),
            "\x1b[?7l\r[###############...............] half\x1b[K\x1b[?7h");
  EXPECT_EQ(Shown(bar.Draw(0.5, "half", 20)), "[######......] half");
}

TEST(ProgressBar, FitsEveryTerminal) {
  for (int columns = 1; columns <= 100; ++columns) {
    ProgressBar bar;
    const std::string shown = Shown(bar.Draw(1, "loading storyteller: 100% of 14.7 MB", columns));
    EXPECT_LE(static_cast<int>(shown.size()), std::max(1, columns - 1)) << columns;
  }
}

TEST(ProgressBar, SaysHowFarItIsWhereTheTextHasNoRoom) {
  ProgressBar bar;
  EXPECT_EQ(Shown(bar.Draw(0.3, "loading storyteller: 30%", 26)), "loading storyteller: 30%");
  EXPECT_EQ(Shown(bar.Draw(0.3, "loading storyteller: 30%", 14)), "30% loading s");
  EXPECT_EQ(Shown(bar.Draw(1, "loading storyteller: 100%", 4)), "100");
}

TEST(ProgressBar, TakesBackWhatANarrowerTerminalShowsOnSeveralRows) {
  ProgressBar bar;
  bar.Draw(0, "half", 80);  // 37 characters
  const std::string drawn = bar.Draw(0.5, "half", 18);
  EXPECT_EQ(drawn.rfind("\x1b[2A\x1b[?7l\r[", 0), 0u) << drawn;
  EXPECT_NE(drawn.find("\x1b[J"), std::string::npos);
  EXPECT_EQ(bar.Draw(0.5, "half", 18).rfind("\x1b[?7l\r", 0), 0u);
}

TEST(TerminalColumns, AreEightyWhereThereIsNoTerminal) { EXPECT_EQ(TerminalColumns(-1), 80); }

}  // namespace
}  // namespace sluice
