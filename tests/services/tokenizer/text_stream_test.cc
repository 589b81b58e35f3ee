#include "services/tokenizer/text_stream.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "tests/services/tokenizer/test_tokenizers.h"

namespace sluice {
namespace {

// One token for each byte, and a few longer ones.
std::unique_ptr<const Tokenizer> TestTokenizer() {
  return testing::SmallTokenizer({.merges = {{"a", "b"}, {"ab", "c"}, {"s", "t"}}});
}
constexpr TokenId kAb = 256;
constexpr TokenId kAbc = 257;

TEST(TextStream, CutsTheTokensAtTheOneThatCompletesTheMatch) {
  const auto tokenizer = TestTokenizer();
  const auto strings = StopStrings::Create({"bcd"});
  TextStream stream(*tokenizer, *strings, {});
  const auto first = stream.Append({'x', kAb});
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->text, "xa");
  EXPECT_EQ(first->num_tokens, 2);
  EXPECT_FALSE(first->stopped());
  const auto second = stream.Append({'c', 'd', 'e', 'f'});
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second->text, "");
  EXPECT_EQ(second->num_tokens, 2);
  EXPECT_EQ(second->stop_index, 0);
  EXPECT_EQ(stream.num_tokens(), 4);
  EXPECT_EQ(stream.Append({'g'}).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(stream.Finish().value().text, "");
}

TEST(TextStream, StopStringMayEndInsideAToken) {
  const auto tokenizer = TestTokenizer();
  const auto strings = StopStrings::Create({"b"});
  TextStream stream(*tokenizer, *strings, {.stop = {.include_stop_string = true}});
  const auto result = stream.Append({'x', kAbc, 'y'});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->text, "xab");
  EXPECT_EQ(result->num_tokens, 2);
}

TEST(TextStream, StopStringsAreTextUntilThereAreEnoughTokens) {
  const auto tokenizer = TestTokenizer();
  const auto strings = StopStrings::Create({"b", "xy"});
  TextStream stream(*tokenizer, *strings, {.min_tokens = 3});
  const auto first = stream.Append({'b', kAbc, 'x'});
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->text, "babc");
  EXPECT_FALSE(first->stopped());
  const auto second = stream.Append({'y', 'z'});  // the token behind the third completes it
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second->text, "");
  EXPECT_EQ(second->stop_index, 1);
  EXPECT_EQ(stream.num_tokens(), 4);
}

TEST(TextStream, ReleasesWhatIsHeldBackAtTheEnd) {
  const auto tokenizer = TestTokenizer();
  const auto strings = StopStrings::Create({"stop"});
  TextStream stream(*tokenizer, *strings, {});
  EXPECT_EQ(stream.Append({'s', 't', 'o'}).value().text, "");
  EXPECT_EQ(stream.Append({0xE2, 0x82}).value().text, "");
  EXPECT_EQ(stream.Finish().value().text, "sto\uFFFD");
  EXPECT_EQ(stream.Finish().status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(TextStream, TextThatComesAtTheEndMayCompleteAMatch) {
  const auto tokenizer = TestTokenizer();
  const auto strings = StopStrings::Create({"\uFFFD"});
  TextStream stream(*tokenizer, *strings, {});
  EXPECT_EQ(stream.Append({'a', 0xE2}).value().text, "a");
  const auto last = stream.Finish();
  ASSERT_TRUE(last.ok()) << last.status();
  EXPECT_EQ(last->stop_index, 0);
  EXPECT_EQ(last->text, "");
}

TEST(TextStream, AnUnknownIdEndsIt) {
  const auto tokenizer = TestTokenizer();
  const StopStrings none;
  TextStream stream(*tokenizer, none, {});
  EXPECT_EQ(stream.Append({'a', 999}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(stream.Append({'a'}).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(TextStream, DoesNotLookForStopStringsInAPrompt) {
  const auto tokenizer = TestTokenizer();
  const auto strings = StopStrings::Create({"ab"});
  TextStream stream(*tokenizer, *strings, {});
  ASSERT_TRUE(stream.Prime({'x', kAb, 'a'}).ok());
  EXPECT_EQ(stream.Append({'b', 'c'}).value().text, "bc");
}

TEST(TextStream, ChunksDoNotMatter) {
  const auto tokenizer = TestTokenizer();
  const auto strings = StopStrings::Create({"abca", "st\u20ac", "cc"});
  ASSERT_TRUE(strings.ok());
  constexpr TokenId kLikely[] = {'a', 'b', 'c', 's', 't', 0xE2, 0x82, 0xAC, kAb, kAbc};
  for (uint32_t seed = 0; seed < 3000; ++seed) {
    std::mt19937 random(seed);
    std::vector<TokenId> ids(random() % 30);
    for (TokenId& id : ids) id = kLikely[random() % std::size(kLikely)];
    TextStream whole(*tokenizer, *strings, {});
    auto expected = whole.Append(ids).value();
    if (!expected.stopped()) expected.text += whole.Finish().value().text;
    TextStream stream(*tokenizer, *strings, {});
    TextStream::Result joined;
    for (size_t i = 0; i < ids.size() && !joined.stopped(); ++i) {
      const auto result = stream.Append(absl::MakeConstSpan(ids).subspan(i, 1));
      ASSERT_TRUE(result.ok()) << result.status();
      joined.text += result->text;
      joined.num_tokens += result->num_tokens;
      joined.stop_index = result->stop_index;
    }
    if (!joined.stopped()) joined.text += stream.Finish().value().text;
    ASSERT_EQ(joined.text, expected.text) << "seed " << seed;
    ASSERT_EQ(joined.num_tokens, expected.num_tokens) << "seed " << seed;
    ASSERT_EQ(joined.stop_index, expected.stop_index) << "seed " << seed;
  }
}

}  // namespace
}  // namespace sluice
