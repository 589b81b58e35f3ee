// How steps end: committed, failed or forgotten; and sequences that end from outside meanwhile.
#include <map>

#include "tests/orchestrator/scheduler/testing.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class CommitTest : public SchedulerTest {};

TEST_F(CommitTest, SaysWhichResultRowWasAcceptedForWhichSequence) {
  Add(Spec(1, 3, 5));
  Add(Spec(2, 4, 5));
  const Step step = Plan();
  const absl::StatusOr<StepOutcome> outcome = scheduler().Commit(step.id, {41, 42});
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  ASSERT_THAT(outcome->rows, SizeIs(2));
  EXPECT_EQ(outcome->rows[0].sequence, 1u);
  EXPECT_EQ(outcome->rows[0].position, 3);
  EXPECT_EQ(outcome->rows[0].token, 41);
  EXPECT_EQ(outcome->rows[0].row, 0);
  EXPECT_EQ(outcome->rows[1].sequence, 2u);
  EXPECT_EQ(outcome->rows[1].position, 4);
  EXPECT_EQ(outcome->rows[1].token, 42);
  EXPECT_EQ(outcome->rows[1].row, 1);
}

TEST_F(CommitTest, KeepsTheTokensOfASequenceUntilItEnds) {
  SequenceSpec spec = Spec(1, 2, 3);
  spec.resumed_tokens = {7};
  Add(std::move(spec));
  EXPECT_THAT(scheduler().TokensOf(1), ElementsAre(100, 101, 7));
  PlanAndCommit(41);
  EXPECT_THAT(scheduler().TokensOf(1), ElementsAre(100, 101, 7, 41));
  scheduler().Reset();
  EXPECT_THAT(scheduler().TokensOf(1), ElementsAre(100, 101, 7, 41));
  PlanAndCommit(42);
  EXPECT_THAT(scheduler().TokensOf(1), IsEmpty());
}

TEST_F(CommitTest, RefusesUnknownAndOlderSteps) {
  Add(Spec(1, 3, 5));
  constexpr auto kNotFound = absl::StatusCode::kNotFound;
  EXPECT_THAT(scheduler().Commit(1, {}).status(), StatusIs(kNotFound, "step 1 was never planned"));
  PlanAndCommit();
  EXPECT_THAT(scheduler().Commit(1, {7}).status(), StatusIs(kNotFound, "step 1 is over"));
  EXPECT_THAT(scheduler().Commit(0, {7}).status(), StatusIs(kNotFound, "never planned"));
}

TEST_F(CommitTest, RefusesAWrongNumberOfRowsAndTakesTheRightOneAfterwards) {
  Add(Spec(1, 3, 5));
  const Step step = Plan();
  EXPECT_THAT(scheduler().Commit(step.id, {7, 8}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "step 1 has 2 result rows; it was "
                       "planned with 1"));
  CheckIntegrity();
  EXPECT_THAT(Commit(step).rows, SizeIs(1));
}

TEST_F(CommitTest, RefusesAStepBeforeAnOlderOne) {
  options_.max_inflight_steps = 2;
  options_.max_sequences_per_step = 1;
  Add(Spec(1, 3, 5));
  Add(Spec(2, 3, 5));
  const Step first = Plan();
  const Step second = Plan();
  EXPECT_THAT(scheduler().Commit(second.id, {7}).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, "before step 1"));
  CheckIntegrity();
  EXPECT_THAT(Commit(first).rows, SizeIs(1));
  EXPECT_THAT(Commit(second).rows, SizeIs(1));
}

TEST_F(CommitTest, DropsTheRowsOfASequenceThatEndedInFlight) {
  Add(Spec(1, 8, 5));
  Add(Spec(2, 4, 5));
  const Step step = Plan();
  const absl::StatusOr<FinishedSequence> finished = scheduler().Finish(1, FinishReason::kStop);
  ASSERT_TRUE(finished.ok());
  EXPECT_EQ(finished->reason, FinishReason::kStop);
  EXPECT_EQ(finished->usage.computed_positions, 0);
  CheckIntegrity();
  EXPECT_EQ(scheduler().statistics().kv_cache.used_blocks, 1);
  const absl::StatusOr<StepOutcome> outcome = scheduler().Commit(step.id, {41, 42});
  ASSERT_TRUE(outcome.ok());
  ASSERT_THAT(outcome->rows, SizeIs(1));
  EXPECT_EQ(outcome->rows[0].sequence, 2u);
  EXPECT_EQ(outcome->rows[0].token, 42);
  EXPECT_EQ(outcome->rows[0].row, 1);
}

TEST_F(CommitTest, GivesANewSequenceNothingOfAnEndedOneWithItsId) {
  Add(Spec(1, 3, 5));
  const Step step = Plan();
  ASSERT_TRUE(scheduler().Finish(1, FinishReason::kCancelled).ok());
  Add(Spec(1, 3, 5));
  const StepOutcome outcome = Commit(step);
  EXPECT_THAT(outcome.rows, IsEmpty());
  EXPECT_EQ(Usage(1).generated_tokens, 0);
  EXPECT_THAT(Parts(Plan()), ElementsAre(Part{1, 0, 3}));
}

TEST_F(CommitTest, FinishesOnlyWhatIsAlive) {
  EXPECT_THAT(scheduler().Finish(1, FinishReason::kStop).status(),
              StatusIs(absl::StatusCode::kNotFound, "sequence 1 is not alive"));
  Add(Spec(1, 3, 5));
  EXPECT_TRUE(scheduler().Finish(1, FinishReason::kStop).ok());
  EXPECT_TRUE(PlansNothing());
  EXPECT_FALSE(scheduler().Finish(1, FinishReason::kStop).ok());
}

TEST_F(CommitTest, ResetComputesEverythingAgainWithTheTokensKept) {
  options_.max_inflight_steps = 2;
  Add(Spec(1, 3, 5));
  Add(Spec(2, 4, 5));
  PlanAndCommit(41);
  const Step lost = Plan();
  scheduler().Reset();
  CheckIntegrity();
  EXPECT_EQ(scheduler().statistics().inflight_steps, 0);
  EXPECT_EQ(scheduler().statistics().waiting_sequences, 2);
  EXPECT_EQ(scheduler().kv_cache().num_available_blocks(), 100);
  EXPECT_THAT(scheduler().Commit(lost.id, {7}).status(),
              StatusIs(absl::StatusCode::kNotFound, "forgotten by a reset"));
  const Step again = Plan();
  EXPECT_GT(again.id, lost.id);
  EXPECT_THAT(Parts(again), ElementsAre(Part{1, 0, 4}, Part{2, 0, 5}));
  EXPECT_THAT(again.segments[0].tokens, ElementsAre(100, 101, 102, 41));
  EXPECT_EQ(Usage(1).preemptions, 0);
}

TEST_F(CommitTest, AbandonedStepsAreComputedAgainIntoTheSameBlocks) {
  options_.max_inflight_steps = 2;
  options_.max_sequences_per_step = 2;
  for (SequenceId id = 1; id <= 3; ++id) Add(Spec(id, 3, 5));
  const Step first = Plan();
  const Step second = Plan();
  Commit(first);
  const Step third = Plan();
  std::map<SequenceId, std::vector<BlockId>> tables;
  for (SequenceId id = 1; id <= 3; ++id) tables[id] = Table(id);
  scheduler().AbandonSteps();
  CheckIntegrity();
  EXPECT_EQ(scheduler().statistics().inflight_steps, 0);
  EXPECT_EQ(scheduler().statistics().running_sequences, 3);
  EXPECT_THAT(scheduler().Commit(second.id, {7}).status(),
              StatusIs(absl::StatusCode::kNotFound, "is over"));
  const Step again = Plan();
  EXPECT_GT(again.id, third.id);
  for (const Segment& segment : again.segments) {
    const bool is_prompt = segment.sequence == 3;
    EXPECT_EQ(segment.first_position, is_prompt ? 0 : 3);
    // The shards of the next epoch know no tables.
    EXPECT_EQ(segment.first_block, 0);
    EXPECT_EQ(segment.blocks, tables[segment.sequence]);
    for (const Step* lost : {&second, &third}) {
      for (const Segment& before : lost->segments) {
        if (before.sequence == segment.sequence) {
          EXPECT_EQ(before.tokens, segment.tokens);
        }
      }
    }
  }
}

TEST_F(CommitTest, ReportsWhatItIsBusyWith) {
  options_.max_sequences_per_step = 1;
  Add(Spec(1, 5, 9));
  Add(Spec(2, 7, 9));
  Plan();
  const SchedulerStatistics statistics = scheduler().statistics();
  EXPECT_EQ(statistics.running_sequences, 1);
  EXPECT_EQ(statistics.waiting_sequences, 1);
  EXPECT_EQ(statistics.waiting_positions, 7);
  EXPECT_EQ(statistics.inflight_steps, 1);
  EXPECT_EQ(statistics.kv_cache.used_blocks, 2);
  EXPECT_EQ(statistics.kv_cache.free_blocks, 98);
  EXPECT_EQ(statistics.kv_cache.total_blocks, 100);
}

}  // namespace
}  // namespace sluice
