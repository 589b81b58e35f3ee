#include "clients/cli/text_input.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <string>

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// UTF-8 of a code point below 2^21 by the plain rule, in the shortest form or in one of `length`.
std::string Encode(uint32_t point, int length = 0) {
  const auto byte = [](uint32_t value) { return static_cast<char>(value); };
  if (length == 0) length = point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
  if (length == 1) return {byte(point)};
  std::string text;
  for (int i = 0; i < length - 1; ++i) {
    text.insert(text.begin(), byte(0x80 | ((point >> (6 * i)) & 0x3F)));
  }
  const uint32_t marks[] = {0, 0, 0xC0, 0xE0, 0xF0};
  text.insert(text.begin(), byte(marks[length] | (point >> (6 * (length - 1)))));
  return text;
}

TEST(TextInputTest, AcceptsEveryCodePointButSurrogates) {
  for (uint32_t point = 0; point < 0x120000; ++point) {
    const bool exists = point < 0xD800 || (point > 0xDFFF && point <= 0x10FFFF);
    ASSERT_EQ(FirstInvalidUtf8(Encode(point)), exists ? std::nullopt : std::optional<size_t>(0))
        << point;
  }
}

TEST(TextInputTest, RefusesOverlongForms) {
  EXPECT_EQ(FirstInvalidUtf8(Encode('/', 2)), 0u);
  EXPECT_EQ(FirstInvalidUtf8(Encode(0x7FF, 3)), 0u);
  EXPECT_EQ(FirstInvalidUtf8(Encode(0xFFFF, 4)), 0u);
}

TEST(TextInputTest, FindsTheFirstBadByteAmongGoodCharacters) {
  constexpr uint32_t kSeed = 5;
  std::mt19937 random(kSeed);
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    const uint32_t count = random() % 8;
    for (uint32_t i = 0; i < count; ++i) text += Encode(random() % 0xD800);
    ASSERT_EQ(FirstInvalidUtf8(text), std::nullopt) << "seed " << kSeed << " round " << round;
    // Cut one character of several bytes short, or put a lone byte.
    const size_t offset = text.size();
    text += random() % 2 == 0 ? Encode(0x80 + random() % 0xD000).substr(0, 1) : "\x80";
    if (random() % 2 == 0) text += "a";
    ASSERT_EQ(FirstInvalidUtf8(text), offset) << "seed " << kSeed << " round " << round;
  }
}

TEST(TextInputTest, SaysWhichByteIsWrongAndWhere) {
  EXPECT_TRUE(CheckUtf8("h\xC3\xA9").ok());
  EXPECT_THAT(std::string(CheckUtf8("abc\xFFxyz").message()), HasSubstr("0xFF at offset 3"));
}

TEST(TextInputTest, ReadsTokenIds) {
  EXPECT_THAT(*ParseTokenIds("1,-2,2147483647"), ElementsAre(1, -2, 2147483647));
  EXPECT_THAT(*ParseTokenIds(""), IsEmpty());
}

TEST(TextInputTest, NamesTheBadTokenId) {
  const auto message = [](const std::string& text) {
    return std::string(ParseTokenIds(text).status().message());
  };
  EXPECT_THAT(message("1,x,3"), HasSubstr("item 2: \"x\" is not an integer"));
  EXPECT_THAT(message("1,"), HasSubstr("item 2: \"\" is not"));
  EXPECT_THAT(message("1, 2"), HasSubstr("item 2: \" 2\" is not"));
  EXPECT_THAT(message("1,2,2147483648"), HasSubstr("item 3"));
}

}  // namespace
}  // namespace sluice
