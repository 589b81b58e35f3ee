#include "services/common/utf8_text.h"

#include <gtest/gtest.h>

#include <string>

namespace sluice {
namespace {

TEST(Utf8Text, KnowsWhatIsWhole) {
  for (const char* text : {"", "a", "\u00e9", "\u20ac", "\U0001F600", "\uD7FF\uE000"}) {
    EXPECT_TRUE(IsUtf8(text)) << text;
    EXPECT_EQ(CleanUtf8(text), text);
    EXPECT_EQ(EscapedUnlessUtf8(text), text);
  }
  // Cut, continued without a beginning, longer than need be, a surrogate, beyond the last one.
  for (const char* text :
       {"\xC3", "\xA9", "\xC0\xAF", "\xE0\x80\xAF", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xFF"}) {
    EXPECT_FALSE(IsUtf8(text));
    EXPECT_EQ(CleanUtf8(text), std::string(std::string(text).size(), '?'));
  }
}

TEST(Utf8Text, ReplacesWhatIsNotAndKeepsTheRest) {
  EXPECT_EQ(CleanUtf8("a\xFF\u00e9\xC3"), "a?\u00e9?");
  EXPECT_EQ(CleanUtf8("a\u00e9b", 2), "a");
  EXPECT_EQ(CleanUtf8("a\u00e9b", 3), "a\u00e9");
}

TEST(Utf8Text, NamesStayDifferent) {
  EXPECT_EQ(EscapedUnlessUtf8("M\xFCller"), "M\\xfcller");
  EXPECT_NE(EscapedUnlessUtf8("M\xFCller"), EscapedUnlessUtf8("M\xE4ller"));
}

}  // namespace
}  // namespace sluice
