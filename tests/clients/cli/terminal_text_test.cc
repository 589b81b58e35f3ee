#include "clients/cli/terminal_text.h"

#include <gtest/gtest.h>

#include <string>

#include "clients/cli/json.h"
#include "services/options/help_text.h"

namespace sluice {
namespace {

TEST(PrintableTest, SpellsControlCharactersOut) {
  EXPECT_EQ(Printable("plain\n\ttext"), "plain\n\ttext");
  EXPECT_EQ(Printable("\x1b]0;title\x07"), "\\x1b]0;title\\x07");
  EXPECT_EQ(Printable(std::string("a\0b\rc\x7f", 6)), "a\\x00b\\x0dc\\x7f");
}

TEST(PrintableTest, KnowsUnicodesControlCharactersAndLeavesItsOthers) {
  EXPECT_EQ(Printable("\xC2\x9B\xC2\xA0\xC3\xA9"), "\\x9b\xC2\xA0\xC3\xA9");
  EXPECT_EQ(Printable("\xC2"), "\xC2");
}

TEST(ShortenedTest, CutsBetweenCharacters) {
  EXPECT_EQ(Shortened("short", 5), "short");
  EXPECT_EQ(Shortened("longer", 5), "lon..");
  EXPECT_EQ(Shortened("\xC3\xA9\xC3\xA9\xC3\xA9", 3), "\xC3\xA9\xC3\xA9\xC3\xA9");
  EXPECT_EQ(Shortened("\xC3\xA9\xC3\xA9\xC3\xA9", 1), "\xC3\xA9");
  EXPECT_EQ(NumCharacters("\xE2\x82\xAC\xC3\xA9x"), 3);
}

TEST(DumpLineTest, EscapesUnicodesControlCharactersTooAndMeansTheSame) {
  const std::string text = "\x1b[1m\x7f\xC2\x9B\x33m\xC2\xA0\xC3\xA9";
  const std::string line = DumpLine(Json(text));
  EXPECT_EQ(line, "\"\\u001b[1m\\u007f\\u009b3m\xC2\xA0\xC3\xA9\"");
  EXPECT_EQ(Json::parse(line), Json(text));
}

TEST(HangingTest, PutsTextBesideOrBelowItsHead) {
  EXPECT_EQ(Hanging("  run", "one two three", 8, 30), "  run   one two three\n");
  EXPECT_EQ(Hanging("  run", "one two three four five", 8, 28),
            "  run   one two three four\n        five\n");
  EXPECT_EQ(Hanging("  longer", "one two", 8, 30), "  longer\n        one two\n");
  EXPECT_EQ(Hanging("  run", "one two three four", 10, 20),
            "  run\n      one two three\n      four\n");
}

TEST(HelpWidthTest, StaysReadable) {
  EXPECT_EQ(HelpWidth(40), 40);
  EXPECT_EQ(HelpWidth(200), 96);
  EXPECT_EQ(HelpWidth(1), 20);
  EXPECT_EQ(HelpWidth(-1), 20);
}

}  // namespace
}  // namespace sluice
