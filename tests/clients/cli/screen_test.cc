#include "clients/cli/screen.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(OnScreenTest, LeavesWhatFits) {
  EXPECT_EQ(OnScreen("one\n\ntwo\n", {.columns = 3, .rows = 4}), "one\n\ntwo\n");
  EXPECT_EQ(OnScreen("", {.columns = 3, .rows = 4}), "\n");
}

TEST(OnScreenTest, GoesOnInTheNextLine) {
  EXPECT_EQ(OnScreen("abcdefg\nh", {.columns = 3, .rows = 9}), "abc\ndef\ng\nh\n");
}

TEST(OnScreenTest, CountsCharactersInsteadOfBytes) {
  EXPECT_EQ(OnScreen("\xC3\xA9\xC3\xA9\xC3\xA9", {.columns = 2, .rows = 9}),
            "\xC3\xA9\xC3\xA9\n\xC3\xA9\n");
}

TEST(OnScreenTest, SaysHowMuchFoundNoRoom) {
  EXPECT_EQ(OnScreen("1\n2\n3\n4\n5\n", {.columns = 40, .rows = 4}),
            "1\n2\n... and 3 lines more\n");
  EXPECT_EQ(OnScreen("1\n2\n3\n", {.columns = 40, .rows = 4}), "1\n2\n3\n");
  EXPECT_EQ(OnScreen("1\n2\n", {.columns = 1, .rows = 1}), ".\n");
}

TEST(ScreenOfTest, IsThatOfOldTerminalsWhereThereIsNone) {
  EXPECT_EQ(ScreenOf(-1).columns, 80);
  EXPECT_EQ(ScreenOf(-1).rows, 24);
}

}  // namespace
}  // namespace sluice
