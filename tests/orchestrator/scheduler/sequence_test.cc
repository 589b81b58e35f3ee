// What Add accepts and refuses, and where sequences end.
#include "orchestrator/scheduler/sequence.h"

#include <limits>

#include "tests/orchestrator/scheduler/testing.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

constexpr auto kRefused = absl::StatusCode::kInvalidArgument;

class SequenceTest : public SchedulerTest {};

TEST(SchedulerOptions, NameTheFieldAndValueThatIsWrong) {
  EXPECT_TRUE(Validate(SchedulerOptions{.max_positions = 1}).ok());
  EXPECT_THAT(Validate(SchedulerOptions{}), StatusIs(kRefused, "max_positions is 0"));
  EXPECT_THAT(Validate(SchedulerOptions{.max_positions = 8, .max_inflight_steps = -1}),
              StatusIs(kRefused, "max_inflight_steps is -1"));
}

TEST_F(SequenceTest, RefusesAnEmptyPrompt) {
  EXPECT_THAT(scheduler().Add(Spec(1, 0, 5)), StatusIs(kRefused, "prompt is empty"));
}

TEST_F(SequenceTest, RefusesToGenerateNothingUnlessThePromptIsScored) {
  EXPECT_THAT(scheduler().Add(Spec(1, 3, 0)), StatusIs(kRefused, "max_new_tokens is 0"));
  SequenceSpec scored = Spec(1, 3, -1);
  scored.score_prompt = true;
  EXPECT_THAT(scheduler().Add(scored), StatusIs(kRefused, "max_new_tokens is -1"));
  scored.max_new_tokens = 0;
  EXPECT_TRUE(scheduler().Add(scored).ok());
}

TEST_F(SequenceTest, AcceptsExactlyTheContext) {
  options_.max_positions = 10;
  EXPECT_THAT(scheduler().Add(Spec(1, 6, 5)), StatusIs(kRefused, "context of 10 positions"));
  EXPECT_THAT(scheduler().Add(Spec(1, 6, std::numeric_limits<int32_t>::max())),
              StatusIs(kRefused, "max_tokens of 2147483647"));
  EXPECT_TRUE(scheduler().Add(Spec(1, 6, 4)).ok());
}

TEST_F(SequenceTest, AcceptsExactlyWhatThePoolHoldsAndFinishesIt) {
  kv_cache_.num_blocks = 2;
  EXPECT_THAT(scheduler().Add(Spec(1, 4, 6)),
              StatusIs(kRefused, "need 9 positions of KV cache; the whole pool holds 8"));
  Add(Spec(1, 4, 5));
  for (int i = 0; i < 4; ++i) PlanAndCommit();
  EXPECT_EQ(scheduler().kv_cache().num_available_blocks(), 0);
  EXPECT_THAT(Commit(Plan()).finished, SizeIs(1));
  EXPECT_EQ(scheduler().kv_cache().num_available_blocks(), 2);
}

TEST_F(SequenceTest, RefusesAnIdThatIsAlive) {
  Add(Spec(1, 3, 5));
  EXPECT_THAT(scheduler().Add(Spec(1, 3, 5)),
              StatusIs(absl::StatusCode::kAlreadyExists, "sequence 1 is alive"));
}

TEST_F(SequenceTest, RefusesMoreThanTheQueueHoldsUntilOneRuns) {
  options_.max_queued_sequences = 2;
  Add(Spec(1, 3, 5));
  Add(Spec(2, 3, 5));
  EXPECT_THAT(scheduler().Add(Spec(3, 3, 5)),
              StatusIs(absl::StatusCode::kResourceExhausted, "the limit is 2"));
  Plan();
  Add(Spec(3, 3, 5));
}

TEST_F(SequenceTest, RefusesResumedTokensThatAreTheWholeOutput) {
  SequenceSpec spec = Spec(1, 3, 2);
  spec.resumed_tokens = {5, 6};
  EXPECT_EQ(AlreadyFinished(spec), FinishReason::kLength);
  EXPECT_THAT(scheduler().Add(spec), StatusIs(kRefused, "(length; max_new_tokens is 2)"));
  spec.max_new_tokens = 3;
  spec.stop_tokens = {6};
  EXPECT_EQ(AlreadyFinished(spec), FinishReason::kStop);
  EXPECT_THAT(scheduler().Add(spec), StatusIs(kRefused, "ended the sequence already (stop"));
  spec.stop_tokens = {};
  EXPECT_EQ(AlreadyFinished(spec), std::nullopt);
  EXPECT_TRUE(scheduler().Add(spec).ok());
}

TEST_F(SequenceTest, RefusesToShareAnotherPrompt) {
  Add(Spec(1, 3, 5));
  SequenceSpec sibling = Spec(2, 4, 5);
  sibling.prompt_of = 1;
  EXPECT_THAT(scheduler().Add(sibling), StatusIs(kRefused, "prompt_of names sequence 1"));
  sibling.prompt = {100, 101, 103};
  EXPECT_THAT(scheduler().Add(sibling), StatusIs(kRefused, "prompt_of names sequence 1"));
}

TEST_F(SequenceTest, EndsAtItsLengthWithTheFactsOfItsUse) {
  Add(Spec(1, 3, 2));
  EXPECT_THAT(Commit(Plan()).finished, SizeIs(0));
  const StepOutcome outcome = Commit(Plan());
  ASSERT_THAT(outcome.finished, SizeIs(1));
  const FinishedSequence& finished = outcome.finished[0];
  EXPECT_EQ(finished.sequence, 1u);
  EXPECT_EQ(finished.request, 1001u);
  EXPECT_EQ(finished.reason, FinishReason::kLength);
  EXPECT_EQ(finished.usage.prompt_tokens, 3);
  EXPECT_EQ(finished.usage.generated_tokens, 2);
  EXPECT_EQ(finished.usage.computed_positions, 4);  // the last token is chosen, not computed
  EXPECT_EQ(finished.usage.shared_positions, 0);
  EXPECT_FALSE(scheduler().Report(1).ok());
}

TEST_F(SequenceTest, EndsWithAStopTokenThatIsPartOfTheOutput) {
  SequenceSpec spec = Spec(1, 3, 10);
  spec.stop_tokens = {7, 102};  // 102 is in the prompt, where it stops nothing
  Add(spec);
  EXPECT_THAT(Commit(Plan(), 5).finished, SizeIs(0));
  const StepOutcome outcome = Commit(Plan(), 7);
  ASSERT_THAT(outcome.finished, SizeIs(1));
  EXPECT_EQ(outcome.finished[0].reason, FinishReason::kStop);
  EXPECT_EQ(outcome.finished[0].usage.generated_tokens, 2);
  ASSERT_THAT(outcome.rows, SizeIs(1));
  EXPECT_EQ(outcome.rows[0].token, 7);
  EXPECT_EQ(outcome.rows[0].position, 4);
}

TEST_F(SequenceTest, GoesOnFromResumedTokensAsGeneratedOnes) {
  SequenceSpec spec = Spec(1, 3, 4);
  spec.resumed_tokens = {5, 6};
  Add(spec);
  const Step step = Plan();
  ASSERT_THAT(step.segments, SizeIs(1));
  EXPECT_THAT(step.segments[0].tokens, ElementsAre(100, 101, 102, 5, 6));
  EXPECT_EQ(step.num_rows(), 1);
  EXPECT_EQ(Commit(step).rows[0].position, 5);
  const StepOutcome outcome = Commit(Plan());
  ASSERT_THAT(outcome.finished, SizeIs(1));
  EXPECT_EQ(outcome.finished[0].usage.generated_tokens, 4);
}

TEST_F(SequenceTest, ScoresEveryPromptTokenAfterTheFirstAndEnds) {
  options_.max_tokens_per_step = 2;
  SequenceSpec spec = Spec(1, 3, 0);
  spec.score_prompt = true;
  Add(spec);
  const Step first = Plan();
  ASSERT_THAT(first.segments, SizeIs(1));
  ASSERT_THAT(first.segments[0].rows, SizeIs(2));
  EXPECT_EQ(first.segments[0].rows[0].kind, RowKind::kScore);
  EXPECT_EQ(first.segments[0].rows[0].target, 101);
  EXPECT_EQ(first.segments[0].rows[1].target, 102);
  const StepOutcome scored = Commit(first, 55);
  ASSERT_THAT(scored.rows, SizeIs(2));
  EXPECT_EQ(scored.rows[1].kind, RowKind::kScore);
  EXPECT_EQ(scored.rows[1].position, 2);
  EXPECT_EQ(scored.rows[1].token, 102);
  EXPECT_EQ(scored.rows[1].row, 1);
  const Step last = Plan();
  EXPECT_EQ(last.num_rows(), 0);
  EXPECT_THAT(Commit(last).finished, SizeIs(1));
}

TEST_F(SequenceTest, ScoresEachPromptTokenOnceAlthoughItIsComputedTwice) {
  SequenceSpec spec = Spec(1, 3, 5);
  spec.score_prompt = true;
  Add(spec);
  EXPECT_EQ(PlanAndCommit().num_rows(), 3);
  scheduler().Reset();
  const Step again = Plan();
  EXPECT_THAT(Parts(again), ElementsAre(Part{1, 0, 4}));
  ASSERT_EQ(again.num_rows(), 1);
  EXPECT_EQ(again.segments[0].rows[0].kind, RowKind::kSample);
}

TEST(FinishReason, HasAName) {
  EXPECT_STREQ(FinishReasonName(FinishReason::kStop), "stop");
  EXPECT_STREQ(FinishReasonName(FinishReason::kLength), "length");
  EXPECT_STREQ(FinishReasonName(FinishReason::kCancelled), "cancelled");
  EXPECT_STREQ(FinishReasonName(FinishReason::kFailed), "failed");
}

}  // namespace
}  // namespace sluice
