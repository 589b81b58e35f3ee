#include "services/constraint/regex/pattern.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace sluice {
namespace {

bool Matches(std::string_view pattern, std::string_view text,
             PatternMatch match = PatternMatch::kSearch) {
  ExprSpace space;
  const auto expr = CompilePattern(pattern, match, space);
  EXPECT_TRUE(expr.ok()) << pattern << ": " << expr.status();
  return expr.ok() && space.Matches(*expr, text);
}

absl::StatusCode Refused(std::string_view pattern) {
  ExprSpace space;
  return CompilePattern(pattern, PatternMatch::kSearch, space).status().code();
}

TEST(Pattern, SearchesUnlessAnchored) {
  EXPECT_TRUE(Matches("b", "abc"));
  EXPECT_FALSE(Matches("^b", "abc"));
  EXPECT_TRUE(Matches("^ab", "abc"));
  EXPECT_FALSE(Matches("b$", "abc"));
  EXPECT_TRUE(Matches("bc$", "abc"));
  EXPECT_FALSE(Matches("^b$", "abc"));
  EXPECT_TRUE(Matches("", "abc"));
}

TEST(Pattern, WholeTakesTheTextFromEndToEnd) {
  EXPECT_TRUE(Matches("a+", "aaa", PatternMatch::kWhole));
  EXPECT_FALSE(Matches("a+", "aab", PatternMatch::kWhole));
  EXPECT_TRUE(Matches("^a+$", "aaa", PatternMatch::kWhole));
}

TEST(Pattern, AnchorsStandInsideOfChoices) {
  EXPECT_TRUE(Matches("^a|b$", "axx"));
  EXPECT_TRUE(Matches("^a|b$", "xxb"));
  EXPECT_FALSE(Matches("^a|b$", "xabx"));
  EXPECT_TRUE(Matches("(^|,)a(,|$)", "b,a"));
  EXPECT_TRUE(Matches("(^|,)a(,|$)", "a,b"));
  EXPECT_FALSE(Matches("(^|,)a(,|$)", "ba,"));
}

TEST(Pattern, LooksAhead) {
  EXPECT_FALSE(Matches("^(?!foo)[a-z]+$", "foobar"));
  EXPECT_TRUE(Matches("^(?!foo)[a-z]+$", "fobar"));
  EXPECT_TRUE(Matches("^(?=.*[0-9])(?=.*[a-z]).{4,}$", "abc1"));
  EXPECT_FALSE(Matches("^(?=.*[0-9])(?=.*[a-z]).{4,}$", "abcd"));
  EXPECT_FALSE(Matches("^(?!.*b$)", "ab"));
  EXPECT_TRUE(Matches("^(?!.*b$)", "aba"));
}

TEST(Pattern, CountsRepetitions) {
  EXPECT_FALSE(Matches("^a{2,3}$", "a"));
  EXPECT_TRUE(Matches("^a{2,3}$", "aa"));
  EXPECT_TRUE(Matches("^a{2,3}$", "aaa"));
  EXPECT_FALSE(Matches("^a{2,3}$", "aaaa"));
  EXPECT_TRUE(Matches("^(ab){2}$", "abab"));
  EXPECT_TRUE(Matches("^a{2,}$", "aaaaaa"));
  EXPECT_TRUE(Matches("^a{,2}$", "a{,2}"));  // a literal, as ECMA-262 has it
  EXPECT_TRUE(Matches("^a{0}b$", "b"));
}

TEST(Pattern, KnowsClassesAndEscapes) {
  EXPECT_TRUE(Matches("^[\\w-]+$", "a_9-"));
  EXPECT_FALSE(Matches("^\\d$", "\u0663"));  // ECMA-262's digits are ASCII's
  EXPECT_TRUE(Matches("^\\s$", "\u2003"));
  EXPECT_TRUE(Matches("^[^a-c]$", "\u00e9"));
  EXPECT_FALSE(Matches("^[^a-c]$", "b"));
  EXPECT_TRUE(Matches("^\\u00e9\\x41\\u{1F600}$", "\u00e9A\U0001F600"));
  EXPECT_TRUE(Matches("^\\ud83d\\ude00$", "\U0001F600"));
  EXPECT_TRUE(Matches("^\\p{Lu}\\p{L}+$", "\u00c9t\u00e9"));
  EXPECT_FALSE(Matches("^.$", "\n"));
  EXPECT_TRUE(Matches("^[]a]$|^b$", "b"));
}

TEST(Pattern, RefusesWhatItCannotKeepByName) {
  EXPECT_EQ(Refused("(a)\\1"), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(Refused("a\\b"), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(Refused("(?<=a)b"), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(Refused("(?i)a"), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(Refused("(^a|b)*"), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(Refused("a("), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Refused("*a"), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Refused("[b-a]"), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Refused("a{3,2}"), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Refused(std::string(200, '(') + std::string(200, ')')),
            absl::StatusCode::kResourceExhausted);
}

TEST(Pattern, NestedCountsEndInAStatus) {
  EXPECT_EQ(Refused("((((a{1,1000}){1,1000}b{1,1000}){1,1000}c){1,1000}d){1,1000}"),
            absl::StatusCode::kOk);  // not unrolled: it is walked only where a text leads
}

}  // namespace
}  // namespace sluice
