#include "clients/cli/terminal_text.h"

#include <gtest/gtest.h>

#include <string>

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

}  // namespace
}  // namespace sluice
