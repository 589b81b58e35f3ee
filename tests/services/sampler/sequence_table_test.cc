// What plans tell of sequences, and what is refused.
#include "services/sampler/sequence_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

v1::SamplerSequence Told(uint64_t id, const std::vector<int32_t>& tokens, int32_t num_prompt) {
  v1::SamplerSequence told;
  told.set_sequence_id(id);
  told.mutable_sampling()->set_frequency_penalty(1);
  told.set_num_prompt_tokens(num_prompt);
  told.mutable_token_ids()->Add(tokens.begin(), tokens.end());
  return told;
}

v1::SamplerExecute Plan(const std::vector<v1::SamplerSequence>& told,
                        const std::vector<uint64_t>& ended = {}) {
  v1::SamplerExecute plan;
  for (const v1::SamplerSequence& sequence : told) *plan.add_sequences() = sequence;
  plan.mutable_ended_sequence_ids()->Add(ended.begin(), ended.end());
  return plan;
}

std::vector<int32_t> TokensOf(SamplerSequence& sequence) {
  return {sequence.past().tokens().begin(), sequence.past().tokens().end()};
}

struct SequenceTableTest : ::testing::Test {
  ConstraintStore constraints{10};
  SequenceTable table{10, &constraints};
};

TEST_F(SequenceTableTest, KeepsWhatItIsToldUntilTheSequenceEnds) {
  table.Update(Plan({Told(7, {1, 2, 3}, 2), Told(8, {4}, 1)}));
  const auto seven = table.Find(7, 3);
  ASSERT_TRUE(seven.ok()) << seven.status();
  EXPECT_THAT(TokensOf(**seven), ElementsAre(1, 2, 3));
  EXPECT_EQ((*seven)->past().num_generated(), 1);
  EXPECT_EQ((*seven)->options().frequency_penalty, 1);
  table.Update(Plan({}, {7, 99}));
  EXPECT_EQ(table.Find(7, 3).status().code(), absl::StatusCode::kInternal);
  EXPECT_TRUE(table.Find(8, 1).ok());
  EXPECT_EQ(table.size(), 1u);
}

TEST_F(SequenceTableTest, GoesOnWithADraftUntilItIsTakenBack) {
  table.Update(Plan({Told(7, {1, 2, 3}, 2)}));
  ASSERT_TRUE(table.Find(7, 3).ok());
  EXPECT_THAT(TokensOf(**table.Assume(7, 4, 8)), ElementsAre(1, 2, 3, 8));
  EXPECT_THAT(TokensOf(**table.Assume(7, 5, 9)), ElementsAre(1, 2, 3, 8, 9));
  EXPECT_EQ(table.Assume(7, 5, 9).status().code(), absl::StatusCode::kInternal);
  EXPECT_EQ(table.Assume(8, 1, 9).status().code(), absl::StatusCode::kInternal);
  EXPECT_EQ(table.Assume(7, 6, 10).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(TokensOf(**table.Find(7, 4)), ElementsAre(1, 2, 3, 8));
  EXPECT_EQ((*table.Find(7, 3))->past().counts().count(8), 0u);
}

TEST_F(SequenceTableTest, TakesLaterTokensBackAndNeverGuessesMissingOnes) {
  table.Update(Plan({Told(7, {1, 2, 3, 4}, 2)}));
  EXPECT_THAT(TokensOf(**table.Find(7, 3)), ElementsAre(1, 2, 3));
  EXPECT_EQ(table.Find(7, 4).status().code(), absl::StatusCode::kInternal);
  EXPECT_EQ(table.Find(7, -1).status().code(), absl::StatusCode::kInternal);
  table.Update(Plan({Told(7, {5, 6}, 1)}));  // told anew
  EXPECT_THAT(TokensOf(**table.Find(7, 2)), ElementsAre(5, 6));
}

TEST_F(SequenceTableTest, ASequenceThatIsToldWronglyFailsAlone) {
  v1::SamplerSequence stop = Told(8, {}, 0);
  stop.add_stop_token_ids(-1);
  v1::SamplerSequence options = Told(9, {}, 0);
  options.mutable_sampling()->set_frequency_penalty(3);
  table.Update(Plan({Told(7, {1, 10}, 2), stop, options, Told(10, {1}, 1)}));
  EXPECT_THAT(std::string(table.Find(7, 2).status().message()),
              HasSubstr("sequence 7: a token is 10; accepted: 0 to 9"));
  EXPECT_EQ(table.Find(8, 0).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(table.Find(9, 0).status().message()),
              HasSubstr("frequency_penalty is 3"));
  EXPECT_TRUE(table.Find(10, 1).ok());
}

TEST_F(SequenceTableTest, RowsBehindOneWithoutATokenHaveNothingToGoOnFrom) {
  table.Update(Plan({Told(7, {1, 2, 3}, 2)}));
  (*table.Find(7, 3))->set_without_token(3);
  EXPECT_EQ(table.Find(7, 4).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(table.Find(7, 3).ok()) << "it is asked for again";
  EXPECT_EQ(table.Find(7, 4).status().code(), absl::StatusCode::kInternal);
}

}  // namespace
}  // namespace sluice
