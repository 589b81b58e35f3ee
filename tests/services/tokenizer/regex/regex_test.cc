#include "services/tokenizer/regex/regex.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> Matches(std::string_view pattern, std::string_view text) {
  const absl::StatusOr<Regex> regex = Regex::Compile(pattern);
  EXPECT_TRUE(regex.ok()) << regex.status();
  if (!regex.ok()) return {};
  RegexScratch scratch;
  RegexMatches matches(*regex, text, scratch);
  std::vector<std::string> found;
  for (ByteRange match; matches.Next(&match);) {
    found.emplace_back(text.substr(match.begin, match.end - match.begin));
  }
  EXPECT_TRUE(matches.status().ok()) << matches.status();
  return found;
}

TEST(Regex, FindsMatchesFromLeftToRight) {
  EXPECT_THAT(Matches("a+|b", "xaabyaba"), ElementsAre("aa", "b", "a", "b", "a"));
  EXPECT_THAT(Matches("é", "aéé"), ElementsAre("é", "é"));
  EXPECT_THAT(Matches("a", ""), IsEmpty());
}

TEST(Regex, PassesOverAnEmptyMatchBehindAMatch) {
  EXPECT_THAT(Matches("x*", "axxé"), ElementsAre("", "xx", ""));
  EXPECT_THAT(Matches("", "é"), ElementsAre("", ""));
}

TEST(Regex, LiteralMatchesItself) {
  const absl::StatusOr<Regex> regex = Regex::Literal("a.+");
  ASSERT_TRUE(regex.ok()) << regex.status();
  RegexScratch scratch;
  RegexMatches matches(*regex, "aab a.+", scratch);
  ByteRange match;
  ASSERT_TRUE(matches.Next(&match));
  EXPECT_EQ(match, (ByteRange{4, 7}));
  EXPECT_FALSE(matches.Next(&match));
}

TEST(RegexDialect, ClassesAreUnicodes) {
  EXPECT_THAT(Matches(R"(\s)", " \u00a0\u180e\u3000"), ElementsAre(" ", "\u00a0", "\u3000"));
  EXPECT_THAT(Matches(R"([^\s]+)", "a\u180e b"), ElementsAre("a\u180e", "b"));
  EXPECT_THAT(Matches(R"([\S]+)", "a\u180e b"), ElementsAre("a\u180e", "b"));
  EXPECT_THAT(Matches(R"(\w+)", "e\u0301_\u2167 \u2153 \u00bd"),
              ElementsAre("e\u0301_\u2167", "\u00bd"));
  EXPECT_THAT(Matches(R"(\W)", "a\u0301-"), ElementsAre("-"));
  EXPECT_THAT(Matches(R"(\h+)", "xyzBADg0"), ElementsAre("BAD", "0"));
  EXPECT_THAT(Matches(R"([[:alpha:]_]+)", "a_1β"), ElementsAre("a_", "β"));
  EXPECT_THAT(Matches(R"([[:punct:]]+)", "a$+.b"), ElementsAre("$+."));
  EXPECT_THAT(Matches(R"(\bb)", "a\u0301b b"), ElementsAre("b"));
}

TEST(RegexDialect, PropertiesHaveLongNamesAndStrictScripts) {
  EXPECT_THAT(Matches(R"(\p{Letter}+)", "ab1é"), ElementsAre("ab", "é"));
  EXPECT_THAT(Matches(R"(\p{^L}+)", "ab1-é"), ElementsAre("1-"));
  EXPECT_THAT(Matches(R"(\pL)", "1a"), ElementsAre("a"));
  // The ideographic comma is used with several scripts, but of none.
  EXPECT_THAT(Matches(R"(\p{Han}+)", "\u4e00\u3001\u4e8c"), ElementsAre("\u4e00", "\u4e8c"));
  EXPECT_THAT(Matches(R"([^\P{L}a])", "ab1"), ElementsAre("b"));
}

TEST(RegexDialect, RepeatsOfRepeatsAreNotPossessive) {
  EXPECT_THAT(Matches("a{2,3}+", "aaaaa"), ElementsAre("aaaaa"));
  EXPECT_THAT(Matches("a{,2}b", "aaab"), ElementsAre("aab"));
  EXPECT_THAT(Matches("(?:ab){1}{2}", "ababab"), ElementsAre("abab"));
  EXPECT_THAT(Matches("a++a", "aaa"), IsEmpty());
  EXPECT_THAT(Matches("a{x}", "a{x}"), ElementsAre("a{x}"));
}

TEST(RegexDialect, LinesAndDots) {
  EXPECT_THAT(Matches("^.", "ab\ncd"), ElementsAre("a", "c"));
  EXPECT_THAT(Matches(".$", "ab\ncd"), ElementsAre("b", "d"));
  EXPECT_THAT(Matches("(?m:a.b)", "a\nb"), ElementsAre("a\nb"));
  EXPECT_THAT(Matches("a.b", "a\nb"), IsEmpty());
}

TEST(RegexDialect, NestedSetsAreUnited) {
  EXPECT_THAT(Matches("[a[bc]d]+", "xabcdx"), ElementsAre("abcd"));
  EXPECT_THAT(Matches(R"( ?[^(\s|[.,!])]+)", "ab (c d)."), ElementsAre("ab", "c", " d"));
  EXPECT_THAT(Matches(R"([\s-]+)", "a - b"), ElementsAre(" - "));
  EXPECT_THAT(Matches(R"([\u0041])", "AB"), ElementsAre("A"));
}

TEST(RegexDialect, RefusesWhatItCannotSay) {
  for (const char* pattern : {"[a&&b]", "[a[^b]]", R"([a\W])", "[[:^alpha:]]"}) {
    const absl::StatusOr<Regex> regex = Regex::Compile(pattern);
    ASSERT_FALSE(regex.ok()) << pattern;
    EXPECT_EQ(regex.status().code(), absl::StatusCode::kUnimplemented) << pattern;
    EXPECT_THAT(std::string(regex.status().message()), HasSubstr(pattern));
  }
}

TEST(Regex, SaysWhyAPatternDoesNotCompile) {
  for (const std::string pattern : {"(", "[z-a]", R"(\p{Nope})", "*", "[", R"(\)", "(?<n", "a)"}) {
    const absl::StatusOr<Regex> regex = Regex::Compile(pattern);
    ASSERT_FALSE(regex.ok()) << pattern;
    EXPECT_EQ(regex.status().code(), absl::StatusCode::kInvalidArgument) << pattern;
    EXPECT_THAT(std::string(regex.status().message()), HasSubstr("does not compile: ")) << pattern;
  }
  EXPECT_FALSE(Regex::Compile(std::string(100'000, 'a')).ok());
  EXPECT_FALSE(Regex::Compile(std::string(10'000, '[')).ok());
}

TEST(Regex, RunawayMatchingEndsInAStatus) {
  const absl::StatusOr<Regex> regex = Regex::Compile("(?:a|aa)+$");
  ASSERT_TRUE(regex.ok()) << regex.status();
  RegexScratch scratch;
  const std::string text = std::string(200, 'a') + "b";
  RegexMatches matches(*regex, text, scratch);
  ByteRange match;
  EXPECT_FALSE(matches.Next(&match));
  EXPECT_EQ(matches.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(matches.status().message()), HasSubstr("failed at byte 0 of 201"));
}

TEST(Regex, DeepBacktrackingOutgrowsTheJitStack) {
  const absl::StatusOr<Regex> regex = Regex::Compile("(?:(a)|b)*c");
  ASSERT_TRUE(regex.ok()) << regex.status();
  RegexScratch scratch;
  const std::string text = std::string(500'000, 'a') + "c";
  RegexMatches matches(*regex, text, scratch);
  ByteRange match;
  ASSERT_TRUE(matches.Next(&match)) << matches.status();
  EXPECT_EQ(match.end, text.size());
}

}  // namespace
}  // namespace sluice
