#include "services/tokenizer/stop_strings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "services/tokenizer/text/utf8.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

struct Ending {
  size_t begin = std::string::npos;
  size_t end = std::string::npos;
  int index = -1;
};

// Sees the whole text: the match that ends first, the longest of several.
Ending FindEnding(const std::vector<std::string>& strings, const std::string& text) {
  Ending best;
  for (size_t i = 0; i < strings.size(); ++i) {
    const size_t begin = text.find(strings[i]);
    if (begin == std::string::npos) continue;
    const size_t end = begin + strings[i].size();
    if (best.index < 0 || end < best.end || (end == best.end && begin < best.begin)) {
      best = {begin, end, static_cast<int>(i)};
    }
  }
  return best;
}

// Whether `text` ends with a proper prefix of a stop string, and how long the longest is.
size_t LongestPrefixAtEnd(const std::vector<std::string>& strings, const std::string& text) {
  size_t longest = 0;
  for (const std::string& string : strings) {
    for (size_t size = std::min(string.size() - 1, text.size()); size > longest; --size) {
      if (text.compare(text.size() - size, size, string, 0, size) == 0) longest = size;
    }
  }
  return longest;
}

std::string RandomString(std::mt19937& random, size_t max_chars) {
  const std::string kChars[] = {"a", "b", "é", "\u00e8"};
  std::string text;
  for (size_t i = 1 + random() % max_chars; i > 0; --i) text += kChars[random() % 4];
  return text;
}

TEST(StopMatcher, AgreesWithASearchOfTheWholeText) {
  int num_stopped = 0;
  for (uint32_t seed = 0; seed < 20'000; ++seed) {
    std::mt19937 random(seed);
    std::vector<std::string> strings(random() % 4);
    for (std::string& string : strings) string = RandomString(random, 4);
    // Doubles would make the index ambiguous.
    std::sort(strings.begin(), strings.end());
    strings.erase(std::unique(strings.begin(), strings.end()), strings.end());
    const auto stop_strings = StopStrings::Create(strings);
    ASSERT_TRUE(stop_strings.ok()) << stop_strings.status();
    const bool include = random() % 2 == 0;
    StopMatcher matcher(*stop_strings, {.include_stop_string = include});
    std::string fed, shown;
    int stop_index = -1;
    const int num_pieces = random() % 12;
    for (int i = 0; i < num_pieces && stop_index < 0; ++i) {
      const std::string piece = random() % 8 == 0 ? "" : RandomString(random, 3);
      const std::string before = fed;
      fed += piece;
      const StopMatcher::Result result = matcher.Feed(piece);
      shown += result.text;
      stop_index = result.stop_index;
      ASSERT_EQ(FirstInvalidUtf8(result.text), std::string::npos) << "seed " << seed;
      const Ending ending = FindEnding(strings, fed);
      ASSERT_EQ(stop_index, ending.index) << "seed " << seed;
      if (ending.index < 0) {
        // All is shown but what may still become a stop string.
        ASSERT_EQ(shown, fed.substr(0, fed.size() - LongestPrefixAtEnd(strings, fed)))
            << "seed " << seed;
      } else {
        ++num_stopped;
        ASSERT_LT(FindEnding(strings, before).index, 0);
        ASSERT_EQ(shown, fed.substr(0, include ? ending.end : ending.begin)) << "seed " << seed;
      }
    }
    shown += matcher.Finish();
    if (stop_index < 0) {
      ASSERT_EQ(shown, fed) << "seed " << seed;
    }
  }
  EXPECT_GT(num_stopped, 5000);
}

TEST(StopMatcher, ShowsAPrefixOnceItFails) {
  const auto strings = StopStrings::Create({"abcd", "bce"});
  StopMatcher matcher(*strings);
  EXPECT_EQ(matcher.Feed("xabc").text, "x");
  EXPECT_EQ(matcher.Feed("f").text, "abcf");
  EXPECT_EQ(matcher.Feed("abc").text, "");
  const StopMatcher::Result result = matcher.Feed("e!");
  EXPECT_EQ(result.text, "a");
  EXPECT_EQ(result.stop_index, 1);
  EXPECT_EQ(matcher.Finish(), "");
}

TEST(StopMatcher, LongestOfThoseThatEndTogetherWins) {
  const auto strings = StopStrings::Create({"c", "abc", "bc"});
  StopMatcher matcher(*strings);
  const StopMatcher::Result result = matcher.Feed("xabcd");
  EXPECT_EQ(result.text, "x");
  EXPECT_EQ(result.stop_index, 1);
}

TEST(StopMatcher, WithoutStopStringsShowsAllAtOnce) {
  const StopStrings none;
  StopMatcher matcher(none);
  EXPECT_EQ(matcher.Feed("abc").text, "abc");
  EXPECT_EQ(matcher.Finish(), "");
}

TEST(StopStrings, RefusesWhatCannotStopAText) {
  const auto message = [](const std::vector<std::string>& strings) {
    return std::string(StopStrings::Create(strings).status().message());
  };
  EXPECT_THAT(message({"a", ""}), HasSubstr("stop string 1 has 0 bytes; accepted: 1 to 1024"));
  EXPECT_THAT(message({std::string(1025, 'a')}), HasSubstr("stop string 0 has 1025 bytes"));
  EXPECT_THAT(message({"a\xC3"}), HasSubstr("stop string 0 is not UTF-8 at byte 1"));
  EXPECT_THAT(message(std::vector<std::string>(65, "a")), HasSubstr("65 stop strings; accepted: "));
  EXPECT_TRUE(StopStrings::Create(std::vector<std::string>(64, std::string(1024, 'a'))).ok());
}

}  // namespace
}  // namespace sluice
