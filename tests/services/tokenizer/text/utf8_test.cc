#include "services/tokenizer/text/utf8.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "tests/testing/test_data.h"

namespace sluice {
namespace {

std::string Lossy(std::string_view bytes) {
  LossyUtf8 utf8;
  std::string text;
  utf8.Append(bytes, &text);
  utf8.Finish(&text);
  return text;
}

std::string FromHex(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

// Random bytes, most of which look like parts of characters.
std::string RandomBytes(std::mt19937& random, size_t size) {
  constexpr unsigned char kLikely[] = {'a',  0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC1, 0xC2, 0xDF,
                                       0xE0, 0xE2, 0xED, 0xEF, 0xF0, 0xF1, 0xF3, 0xF4, 0xF5, 0xFF};
  std::string bytes;
  for (size_t i = 0; i < size; ++i) bytes += static_cast<char>(kLikely[random() % sizeof(kLikely)]);
  return bytes;
}

TEST(Utf8, EveryScalarValueIsValidAndReadsBack) {
  for (char32_t c = 0; c <= 0x10FFFF; ++c) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    std::string text = "x";
    AppendUtf8(c, &text);
    ASSERT_EQ(FirstInvalidUtf8(text), std::string::npos) << std::hex << static_cast<uint32_t>(c);
    ASSERT_EQ(ReadUtf8(text, 1).code_point, c);
    ASSERT_EQ(ReadUtf8(text, 1).length, text.size() - 1);
    ASSERT_EQ(ReadUtf8Before(text, text.size()).code_point, c);
    ASSERT_EQ(Lossy(text), text);
  }
}

TEST(Utf8, FindsTheFirstInvalidByte) {
  EXPECT_EQ(FirstInvalidUtf8(""), std::string::npos);
  EXPECT_EQ(FirstInvalidUtf8("\x80"), 0);
  EXPECT_EQ(FirstInvalidUtf8("eight by\xC3\xA9 and\xC3("), 14);
  EXPECT_EQ(FirstInvalidUtf8("0123456789\xE2\x82"), 10);      // cut off
  EXPECT_EQ(FirstInvalidUtf8("\xC0\xAF"), 0);                 // overlong
  EXPECT_EQ(FirstInvalidUtf8("\xED\xA0\x80"), 0);             // surrogate
  EXPECT_EQ(FirstInvalidUtf8("\xF4\x90\x80\x80"), 0);         // above U+10FFFF
  EXPECT_EQ(FirstInvalidUtf8(std::string("a\0\xFF", 3)), 2);  // NUL is a character
}

TEST(Utf8, ReplacesMaximalSubparts) {
  EXPECT_EQ(Lossy("\xE2\x82"), "\uFFFD");
  EXPECT_EQ(Lossy("\xE2\x82("), "\uFFFD(");
  EXPECT_EQ(Lossy("\xE2(\x82"), "\uFFFD(\uFFFD");
  EXPECT_EQ(Lossy("\xF0\x9F\x98\xF0\x9F\x98\x80"), "\uFFFD\U0001F600");
  EXPECT_EQ(Lossy("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(Lossy("\xC0\xAF\xFE"), "\uFFFD\uFFFD\uFFFD");
}

TEST(Utf8, AgreesWithTheCollectionOfInvalidTexts) {
  SLUICE_SKIP_WITHOUT("text/invalid_utf8.jsonl");
  std::ifstream file(*testing::TestData("text/invalid_utf8.jsonl"));
  int num_lines = 0;
  for (std::string line; std::getline(file, line); ++num_lines) {
    const nlohmann::json entry = nlohmann::json::parse(line);
    const std::string bytes = FromHex(entry["hex"]);
    EXPECT_EQ(FirstInvalidUtf8(bytes) == std::string::npos, entry["valid"]) << line;
    EXPECT_EQ(Lossy(bytes), entry["whatwg_replace"]) << line;
  }
  EXPECT_GE(num_lines, 20);
}

TEST(Utf8, PiecesGiveTheSameTextAndHoldBackNoWholeCharacter) {
  for (uint32_t seed = 0; seed < 2000; ++seed) {
    std::mt19937 random(seed);
    const std::string buffer = RandomBytes(random, random() % 24);
    const std::string_view bytes = buffer;
    LossyUtf8 utf8;
    std::string text;
    for (size_t at = 0; at < bytes.size();) {
      const size_t size = std::min<size_t>(1 + random() % 3, bytes.size() - at);
      utf8.Append(bytes.substr(at, size), &text);
      at += size;
      ASSERT_EQ(FirstInvalidUtf8(text), std::string::npos) << seed;
      // All is out but what may still become a character: one replacement of the rest's.
      const std::string all = Lossy(bytes.substr(0, at));
      ASSERT_TRUE(all == text || all == text + "\uFFFD") << seed;
    }
    utf8.Finish(&text);
    ASSERT_EQ(text, Lossy(bytes)) << seed;
  }
}

TEST(ReadUtf8Prefix, KnowsWhatMayStillBecomeText) {
  EXPECT_EQ(ReadUtf8Prefix(""), Utf8Prefix::kWhole);
  EXPECT_EQ(ReadUtf8Prefix("aé"), Utf8Prefix::kWhole);
  EXPECT_EQ(ReadUtf8Prefix("a\xE2\x82"), Utf8Prefix::kUnfinished);
  EXPECT_EQ(ReadUtf8Prefix("\xF0\x90"), Utf8Prefix::kUnfinished);
  for (const char* bytes :
       {"\x80", "\xE2\x28", "\xE0\x80", "\xED\xA0", "\xF4\x90", "\xC3\xA9\xFF"}) {
    EXPECT_EQ(ReadUtf8Prefix(bytes), Utf8Prefix::kInvalid);
  }
}

}  // namespace
}  // namespace sluice
