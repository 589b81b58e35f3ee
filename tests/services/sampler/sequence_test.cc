// What a sequence's options and tokens change of the next token's logits.
#include "services/sampler/sequence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>
#include <utility>
#include <vector>

namespace sluice {
namespace {

constexpr int64_t kVocabulary = 40;

SamplerSequence Make(SamplingOptions options, const std::vector<int32_t>& prompt,
                     const std::vector<int32_t>& generated, std::vector<int32_t> stop = {}) {
  SamplerSequence sequence(std::move(options), std::move(stop), static_cast<int32_t>(prompt.size()),
                           kVocabulary);
  for (const int32_t token : prompt) sequence.Append(token);
  for (const int32_t token : generated) sequence.Append(token);
  return sequence;
}

std::map<int32_t, LogitEdit> EditsOf(SamplerSequence sequence) {
  std::map<int32_t, LogitEdit> edits;
  int32_t previous = -1;
  for (const LogitEdit& edit : sequence.Edits()) {
    EXPECT_GT(edit.id, previous);
    previous = edit.id;
    edits[edit.id] = edit;
  }
  return edits;
}

std::vector<int32_t> Forbidden(SamplerSequence sequence) {
  std::vector<int32_t> ids;
  for (const auto& [id, edit] : EditsOf(std::move(sequence))) {
    if (edit.bias == -HUGE_VALF) ids.push_back(id);
  }
  return ids;
}

using Ids = std::vector<int32_t>;

TEST(SequencePast, CountsWhatIsLeftAfterAnyAppendsAndTruncations) {
  std::mt19937 random(1);
  for (int round = 0; round < 50; ++round) {
    const auto num_prompt = static_cast<int32_t>(random() % 20);
    SequencePast past(num_prompt);
    Ids tokens;
    for (int i = 0; i < 200; ++i) {
      if (random() % 4 == 0) {
        const size_t size = tokens.size() - random() % (tokens.size() / 3 + 1);
        tokens.resize(size);
        past.Truncate(static_cast<int32_t>(size));
      } else {
        tokens.push_back(static_cast<int32_t>(random() % 8));
        past.Append(tokens.back());
      }
      std::map<int32_t, std::pair<int, int>> expected, counted;
      for (size_t p = 0; p < tokens.size(); ++p) {
        ++expected[tokens[p]].first;
        expected[tokens[p]].second += static_cast<int32_t>(p) >= num_prompt;
      }
      for (const auto& [id, count] : past.counts()) counted[id] = {count.all, count.generated};
      ASSERT_EQ(counted, expected);
      ASSERT_EQ(Ids(past.tokens().begin(), past.tokens().end()), tokens);
    }
  }
}

TEST(SamplerSequence, WithoutOptionsEditsNothing) {
  SamplerSequence sequence = Make({}, {1, 2, 3}, {4, 5}, {0});
  EXPECT_TRUE(sequence.Edits().empty());
  EXPECT_TRUE(sequence.allowed().empty());
}

TEST(SamplerSequence, RepetitionCountsPromptAndGeneratedPresenceAndFrequencyGeneratedAlone) {
  const auto edits = EditsOf(
      Make({.repetition_penalty = 1.5F, .presence_penalty = 0.5F, .frequency_penalty = 0.25F},
           {1, 2}, {2, 3, 3, 3}));
  ASSERT_EQ(edits.size(), 3u);
  for (const auto& [id, edit] : edits) EXPECT_TRUE(edit.repeated) << id;
  EXPECT_EQ(edits.at(1).penalty, 0);
  EXPECT_EQ(edits.at(2).penalty, 0.75F);
  EXPECT_EQ(edits.at(3).penalty, 1.25F);
}

TEST(SamplerSequence, MasksWhatIsNotAllowedAndWhatIsBanned) {
  SamplerSequence some = Make({.allowed_token_ids = {0, 33}}, {}, {});
  EXPECT_EQ(some.allowed()[0], 1u);
  EXPECT_EQ(some.allowed()[1], 2u);
  SamplerSequence others = Make({.banned_token_ids = {1, 32}}, {}, {});
  EXPECT_EQ(others.allowed()[0], ~uint32_t{2});
  EXPECT_EQ(others.allowed()[1], ~uint32_t{1});
}

TEST(SamplerSequence, ForbidsTheLastTokenOfABadWordAfterTheOthers) {
  const SamplingOptions options{.bad_words_ids = {{9}, {4, 5}, {1, 2, 3, 6}, {7, 5, 8}}};
  EXPECT_EQ(Forbidden(Make(options, {1, 2}, {3})), (Ids{6, 9}));
  EXPECT_EQ(Forbidden(Make(options, {}, {4})), (Ids{5, 9}));
  EXPECT_EQ(Forbidden(Make(options, {}, {5})), (Ids{9}));
}

TEST(SamplerSequence, HoldsStopTokensBackUntilThereAreEnough) {
  const SamplingOptions options{.min_tokens = 2};
  EXPECT_EQ(Forbidden(Make(options, {1, 2, 3}, {}, {0, 7})), (Ids{0, 7}));
  EXPECT_EQ(Forbidden(Make(options, {1, 2, 3}, {4}, {0, 7})), (Ids{0, 7}));
  EXPECT_EQ(Forbidden(Make(options, {1, 2, 3}, {4, 4}, {0, 7})), Ids());
}

TEST(SamplerSequence, ForbidsNgramsThatWouldComeAgain) {
  EXPECT_EQ(Forbidden(Make({.no_repeat_ngram_size = 3}, {1, 2, 3, 1}, {2})), (Ids{3}));
}

TEST(SamplerSequence, DryGrowsWithTheRunThatWouldBeRepeated) {
  const SamplingOptions options{
      .dry_multiplier = 0.5F, .dry_base = 2, .dry_allowed_length = 2, .dry_range = 0};
  const auto edits = EditsOf(Make(options, {1, 2, 3, 9, 2, 3, 4, 8, 3, 6}, {1, 2, 3}));
  ASSERT_EQ(edits.size(), 2u);
  EXPECT_EQ(edits.at(9).penalty, 1.0F);  // 0.5 * 2^(3 - 2)
  EXPECT_EQ(edits.at(4).penalty, 0.5F);  // 0.5 * 2^(2 - 2)
  SamplingOptions near = options;
  near.dry_range = 9;  // 2 3 4 8 3 6 1 2 3
  EXPECT_EQ(EditsOf(Make(near, {1, 2, 3, 9, 2, 3, 4, 8, 3, 6}, {1, 2, 3})).size(), 1u);
  SamplingOptions broken = options;
  broken.dry_breaker_token_ids = {2};
  EXPECT_TRUE(Make(broken, {1, 2, 3, 9, 2, 3, 4, 8, 3, 6}, {1, 2, 3}).Edits().empty());
}

TEST(SamplerSequence, DryNeverForbids) {
  const SamplingOptions options{.dry_multiplier = 1e30F, .dry_base = 1e30F};
  const auto edits = EditsOf(Make(options, std::vector<int32_t>(3000, 5), {}));
  EXPECT_TRUE(std::isfinite(edits.at(5).penalty));
}

}  // namespace
}  // namespace sluice
