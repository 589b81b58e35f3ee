#include "services/tokenizer/vocabulary/added_tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// The segments of `text`, tokens in square brackets.
std::vector<std::string> Split(const std::vector<AddedToken>& tokens, std::string_view text,
                               bool parse_special = true) {
  AddedTokenFinder finder;
  for (const AddedToken& token : tokens) finder.Add(token, token.content);
  std::vector<std::string> segments;
  const absl::Status status = finder.Split(
      text, {.parse_special = parse_special}, [&](const AddedTokenFinder::Segment& segment) {
        const std::string part(text.substr(segment.begin, segment.end - segment.begin));
        segments.push_back(segment.token == nullptr ? part : "[" + part + "]");
        return absl::OkStatus();
      });
  EXPECT_TRUE(status.ok()) << status;
  return segments;
}

TEST(AddedTokens, AreCutOutOfTheText) {
  const std::vector<AddedToken> tokens = {{.id = 1, .content = "<s>"}};
  EXPECT_THAT(Split(tokens, "a<s>b<s><s>"), ElementsAre("a", "[<s>]", "b", "[<s>]", "[<s>]"));
  EXPECT_THAT(Split(tokens, "a<s"), ElementsAre("a<s"));
  EXPECT_THAT(Split(tokens, ""), IsEmpty());
  EXPECT_THAT(Split({}, "a"), ElementsAre("a"));
}

TEST(AddedTokens, LongestOfTheLeftmostWins) {
  const std::vector<AddedToken> tokens = {
      {.id = 1, .content = "ab"}, {.id = 2, .content = "abcd"}, {.id = 3, .content = "bcde"}};
  EXPECT_THAT(Split(tokens, "abcdeabc"), ElementsAre("[abcd]", "e", "[ab]", "c"));
}

TEST(AddedTokens, SingleWordsStandAlone) {
  const std::vector<AddedToken> tokens = {{.id = 1, .content = "cat", .single_word = true}};
  EXPECT_THAT(Split(tokens, "cat concat cats (cat)é cat_"),
              ElementsAre("[cat]", " concat cats (", "[cat]", ")é cat_"));
  EXPECT_THAT(Split(tokens, "écat"), ElementsAre("écat"));
}

TEST(AddedTokens, TakeWhitespaceAlong) {
  EXPECT_THAT(Split({{.id = 1, .content = "x", .lstrip = true}}, "a \u3000x  b"),
              ElementsAre("a", "[ \u3000x]", "  b"));
  EXPECT_THAT(Split({{.id = 1, .content = "x", .rstrip = true}}, "a x \n b"),
              ElementsAre("a ", "[x \n ]", "b"));
  EXPECT_THAT(Split({{.id = 1, .content = "x", .lstrip = true, .rstrip = true}}, " x  x "),
              ElementsAre("[ x  ]", "[x ]"));
}

TEST(AddedTokens, WhitespaceIsTakenOnce) {
  const std::vector<AddedToken> tokens = {
      {.id = 1, .content = "\n", .lstrip = true, .rstrip = true}};
  EXPECT_THAT(Split(tokens, "a\n\n\nb"), ElementsAre("a", "[\n\n\n]", "b"));
}

TEST(AddedTokens, SpecialOnesAreTextWhereNotTrusted) {
  const std::vector<AddedToken> tokens = {{.id = 1, .content = "<s>", .special = true},
                                          {.id = 2, .content = "word"}};
  EXPECT_THAT(Split(tokens, "<s>word", false), ElementsAre("<s>", "[word]"));
}

TEST(AddedTokens, RunsOfWhitespaceTakeLinearTime) {
  AddedTokenFinder finder;
  finder.Add({.id = 1, .content = " ", .rstrip = true}, " ");
  size_t num_segments = 0;
  const std::string text(1'000'000, ' ');
  const absl::Status status = finder.Split(text, {}, [&](const AddedTokenFinder::Segment& segment) {
    ++num_segments;
    EXPECT_EQ(segment.end, text.size());
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(num_segments, text.size());
}

}  // namespace
}  // namespace sluice
