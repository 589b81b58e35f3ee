// Which sequences a step takes, and who gives up blocks for whom.
#include <limits>

#include "tests/orchestrator/scheduler/testing.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class PlanTest : public SchedulerTest {
 protected:
  SequenceSpec WithPriority(SequenceSpec spec, int32_t priority) {
    spec.priority = priority;
    return spec;
  }
};

TEST_F(PlanTest, PlansNothingWithoutSequences) { EXPECT_TRUE(PlansNothing()); }

TEST_F(PlanTest, ComputesAPromptInChunksAndSamplesAfterTheLast) {
  options_.max_tokens_per_step = 4;
  Add(Spec(1, 10, 2));
  const Step first = PlanAndCommit();
  EXPECT_THAT(Parts(first), ElementsAre(Part{1, 0, 4}));
  EXPECT_THAT(first.segments[0].tokens, ElementsAre(100, 101, 102, 103));
  EXPECT_EQ(first.segments[0].first_block, 0);
  EXPECT_EQ(first.segments[0].blocks, Table(1));
  EXPECT_EQ(first.num_rows(), 0);
  EXPECT_THAT(Parts(PlanAndCommit()), ElementsAre(Part{1, 4, 4}));
  const Step last = PlanAndCommit(77);
  EXPECT_THAT(Parts(last), ElementsAre(Part{1, 8, 2}));
  EXPECT_EQ(last.segments[0].first_block, 3);
  EXPECT_THAT(last.segments[0].blocks, IsEmpty());
  ASSERT_EQ(last.num_rows(), 1);
  EXPECT_EQ(last.segments[0].rows[0].offset, 1);
  EXPECT_EQ(last.segments[0].rows[0].kind, RowKind::kSample);
  const Step decode = Plan();
  EXPECT_THAT(Parts(decode), ElementsAre(Part{1, 10, 1}));
  EXPECT_THAT(decode.segments[0].tokens, ElementsAre(77));
}

// ---- Texts to embed ----

SequenceSpec TextSpec(SequenceId id, int num_tokens, PooledRows pooled) {
  SequenceSpec spec = Spec(id, num_tokens, 0);
  spec.pooled = pooled;
  spec.in_one_piece = pooled != PooledRows::kLast;
  return spec;
}

TEST_F(PlanTest, PacksTextsIntoStepsWithoutCuttingThoseInOnePiece) {
  options_.max_tokens_per_step = 10;
  Add(TextSpec(1, 6, PooledRows::kAll));
  Add(TextSpec(2, 5, PooledRows::kFirst));
  Add(TextSpec(3, 4, PooledRows::kAll));
  Add(TextSpec(4, 10, PooledRows::kAll));
  EXPECT_THAT(Parts(Plan()), ElementsAre(Part{1, 0, 6})) << "2 would be cut";
  EXPECT_TRUE(PlansNothing());
}

// ---- Sources ----

// A source of so many tokens, its fill, and a text behind it.
SequenceSpec SourceAndText(SequenceId id, int32_t source, int32_t text) {
  SequenceSpec spec = Spec(id, FilledSource(source) + text, 2);
  spec.source_positions = source;
  return spec;
}

TEST_F(PlanTest, TakesASourceInOnePieceAndCutsTheTextBehindIt) {
  options_.max_tokens_per_step = 40;
  Add(SourceAndText(1, 17, 12));
  Add(SourceAndText(2, 5, 1));
  const Step first = PlanAndCommit();
  EXPECT_THAT(Parts(first), ElementsAre(Part{1, 0, 40}));
  EXPECT_EQ(first.segments[0].source_positions, 17);
  EXPECT_THAT(Parts(PlanAndCommit()), ElementsAre(Part{1, 40, 4}, Part{2, 0, 17}));
}

TEST_F(PlanTest, ASourceWaitsForAStepThatHasRoomForAllOfIt) {
  options_.max_tokens_per_step = 20;
  Add(Spec(1, 6, 1));
  Add(SourceAndText(2, 16, 1));
  EXPECT_THAT(Parts(PlanAndCommit()), ElementsAre(Part{1, 0, 6}));
  EXPECT_THAT(Parts(PlanAndCommit()), ElementsAre(Part{2, 0, 17}));
}

TEST_F(PlanTest, PoolsTheRowsThatAnEmbeddingIsMadeOf) {
  options_.max_tokens_per_step = 8;
  Add(TextSpec(1, 3, PooledRows::kAll));
  Add(TextSpec(2, 5, PooledRows::kFirst));
  const Step step = Plan();
  EXPECT_THAT(Parts(step), ElementsAre(Part{1, 0, 3}, Part{2, 0, 5}));
  ASSERT_THAT(step.segments[0].rows, SizeIs(3));
  EXPECT_EQ(step.segments[0].rows[2].kind, RowKind::kPool);
  ASSERT_THAT(step.segments[1].rows, SizeIs(1));
  EXPECT_EQ(step.segments[1].rows[0].offset, 0);
  EXPECT_THAT(Commit(step).finished, SizeIs(2)) << "they generate nothing";
  // Of a decoder the last row alone, whose text may be cut.
  Add(TextSpec(3, 11, PooledRows::kLast));
  EXPECT_EQ(PlanAndCommit().num_rows(), 0);
  const Step last = Plan();
  EXPECT_THAT(Parts(last), ElementsAre(Part{3, 8, 3}));
  ASSERT_THAT(last.segments[0].rows, SizeIs(1));
  EXPECT_EQ(last.segments[0].rows[0].offset, 2);
  EXPECT_THAT(Commit(last).finished, SizeIs(1));
}

TEST_F(PlanTest, RefusesATextInOnePieceThatNoStepHasRoomFor) {
  options_.max_tokens_per_step = 10;
  EXPECT_EQ(scheduler().Add(TextSpec(1, 11, PooledRows::kAll)).message(),
            "a text of 11 tokens is computed in one step, which has room for 10 "
            "(--max_step_tokens)");
  Add(TextSpec(2, 10, PooledRows::kAll));
}

TEST_F(PlanTest, TellsOfBlocksOnceAndOfTablesThatAreOver) {
  Add(Spec(1, 7, 9));
  EXPECT_THAT(PlanAndCommit().segments[0].blocks, SizeIs(2));
  EXPECT_THAT(PlanAndCommit().segments[0].blocks, IsEmpty()) << "position 7 is in the second";
  const Step step = PlanAndCommit();
  EXPECT_EQ(step.segments[0].first_block, 2);
  EXPECT_EQ(step.segments[0].blocks, std::vector<BlockId>({Table(1)[2]}));
  EXPECT_THAT(step.ended, IsEmpty());
  ASSERT_TRUE(scheduler().Finish(1, FinishReason::kCancelled).ok());
  Add(Spec(2, 3, 9));
  Add(Spec(3, 3, 9));
  ASSERT_TRUE(scheduler().Finish(3, FinishReason::kCancelled).ok());
  EXPECT_THAT(PlanAndCommit().ended, ElementsAre(1)) << "of 3 nobody has heard";
  EXPECT_THAT(PlanAndCommit().ended, IsEmpty());
}

TEST_F(PlanTest, SaysWhenThereWasNothingToDoBefore) {
  Add(Spec(1, 3, 2));
  EXPECT_TRUE(PlanAndCommit().after_idle);
  EXPECT_FALSE(PlanAndCommit().after_idle);
  Add(Spec(2, 3, 9));
  EXPECT_TRUE(PlanAndCommit().after_idle) << "1 ended before 2 came";
  Add(Spec(3, 3, 9));
  ASSERT_TRUE(scheduler().Finish(2, FinishReason::kStop).ok());
  EXPECT_FALSE(PlanAndCommit().after_idle);
  scheduler().AbandonSteps();
  EXPECT_TRUE(PlanAndCommit().after_idle);
}

TEST_F(PlanTest, NumbersStepsFromOneWithoutGaps) {
  Add(Spec(1, 3, 3));
  EXPECT_EQ(PlanAndCommit().id, 1u);
  const Step step = Plan();
  EXPECT_EQ(step.id, 2u);
  EXPECT_TRUE(PlansNothing());
  Commit(step);
  EXPECT_EQ(Plan().id, 3u);
}

TEST_F(PlanTest, DecodesFirstAndGivesPromptsTheRestOfTheTokens) {
  options_.max_tokens_per_step = 6;
  Add(Spec(1, 2, 9));
  Add(Spec(2, 2, 9));
  PlanAndCommit();
  Add(Spec(3, 9, 9));
  EXPECT_THAT(Parts(PlanAndCommit()), ElementsAre(Part{1, 2, 1}, Part{2, 2, 1}, Part{3, 0, 4}));
  EXPECT_THAT(Parts(PlanAndCommit()), ElementsAre(Part{1, 3, 1}, Part{2, 3, 1}, Part{3, 4, 4}));
}

TEST_F(PlanTest, TakesPromptsByPriorityAndThenByArrival) {
  options_.max_tokens_per_step = 7;
  Add(Spec(1, 3, 9));
  Add(WithPriority(Spec(2, 3, 9), 5));
  Add(Spec(3, 3, 9));
  Add(WithPriority(Spec(4, 3, 9), 5));
  EXPECT_THAT(Parts(Plan()), ElementsAre(Part{2, 0, 3}, Part{4, 0, 3}, Part{1, 0, 1}));
}

TEST_F(PlanTest, RanksTheLowestPossiblePriorityLast) {
  options_.max_sequences_per_step = 1;
  Add(WithPriority(Spec(1, 3, 9), std::numeric_limits<int32_t>::min()));
  Add(WithPriority(Spec(2, 3, 9), std::numeric_limits<int32_t>::max()));
  EXPECT_THAT(Parts(Plan()), ElementsAre(Part{2, 0, 3}));
}

TEST_F(PlanTest, LetsNobodyOvertakeTheFirstInLine) {
  kv_cache_.num_blocks = 4;
  Add(Spec(1, 8, 9));   // 2 blocks, 2 left
  Add(Spec(2, 12, 2));  // needs 3
  Add(Spec(3, 2, 2));   // would fit
  EXPECT_THAT(Parts(PlanAndCommit()), ElementsAre(Part{1, 0, 8}));
  EXPECT_THAT(Parts(PlanAndCommit()), ElementsAre(Part{1, 8, 1}));
  EXPECT_EQ(scheduler().statistics().waiting_sequences, 2);
}

TEST_F(PlanTest, KeepsASequenceInOneStepAtATime) {
  options_.max_inflight_steps = 3;
  Add(Spec(1, 3, 9));
  const Step step = Plan();
  EXPECT_TRUE(PlansNothing());
  Add(Spec(2, 3, 9));
  EXPECT_THAT(Parts(Plan()), ElementsAre(Part{2, 0, 3}));
  EXPECT_TRUE(PlansNothing());
  Commit(step);
  EXPECT_THAT(Parts(Plan()), ElementsAre(Part{1, 3, 1}));
}

TEST_F(PlanTest, StopsAtTheStepsInFlightItMayHave) {
  options_.max_inflight_steps = 2;
  options_.max_sequences_per_step = 1;
  for (SequenceId id = 1; id <= 3; ++id) Add(Spec(id, 3, 9));
  Plan();
  Plan();
  EXPECT_EQ(scheduler().statistics().inflight_steps, 2);
  EXPECT_TRUE(PlansNothing());
}

TEST_F(PlanTest, SpreadsDecodesEvenlyOverTheStepsInFlight) {
  options_.max_inflight_steps = 2;
  for (SequenceId id = 1; id <= 4; ++id) Add(Spec(id, 3, 9));
  PlanAndCommit();
  EXPECT_THAT(Parts(Plan()), ElementsAre(Part{1, 3, 1}, Part{2, 3, 1}));
  EXPECT_THAT(Parts(Plan()), ElementsAre(Part{3, 3, 1}, Part{4, 3, 1}));
}

TEST_F(PlanTest, KeepsASegmentForAPromptWhenDecodesCouldFillTheStep) {
  options_.max_inflight_steps = 2;  // the test uses one at a time
  options_.max_sequences_per_step = 2;
  options_.max_tokens_per_step = 2;
  for (SequenceId id = 1; id <= 3; ++id) Add(Spec(id, 1, 50));
  PlanAndCommit();
  PlanAndCommit();
  ASSERT_EQ(scheduler().statistics().running_sequences, 3);
  Add(Spec(4, 9, 9));
  // The prompt goes on in every step, and the others take turns.
  EXPECT_THAT(Parts(PlanAndCommit()), ElementsAre(Part{2, 1, 1}, Part{4, 0, 1}));
  EXPECT_THAT(Parts(PlanAndCommit()), ElementsAre(Part{1, 2, 1}, Part{4, 1, 1}));
  EXPECT_THAT(Parts(PlanAndCommit()), ElementsAre(Part{3, 1, 1}, Part{4, 2, 1}));
  EXPECT_THAT(Parts(PlanAndCommit()), ElementsAre(Part{2, 2, 1}, Part{4, 3, 1}));
}

TEST_F(PlanTest, TurnsDecodesByTheStepTheyHadLast) {
  options_.max_inflight_steps = 2;
  options_.max_sequences_per_step = 2;
  for (SequenceId id = 1; id <= 3; ++id) Add(Spec(id, 1, 50));
  const Step first = Plan();
  const Step second = Plan();
  EXPECT_THAT(Parts(first), ElementsAre(Part{1, 0, 1}, Part{2, 0, 1}));
  EXPECT_THAT(Parts(second), ElementsAre(Part{3, 0, 1}));
  Commit(first);
  Commit(second);
  // One step at a time now, each with room for two of the three.
  EXPECT_THAT(Parts(PlanAndCommit()), ElementsAre(Part{1, 1, 1}, Part{2, 1, 1}));
  EXPECT_THAT(Parts(PlanAndCommit()), ElementsAre(Part{3, 1, 1}, Part{1, 2, 1}));
  EXPECT_THAT(Parts(PlanAndCommit()), ElementsAre(Part{2, 2, 1}, Part{1, 3, 1}));
}

TEST_F(PlanTest, AdmitsNoMoreThanTheStepsInFlightHavePlacesFor) {
  options_.max_sequences_per_step = 2;
  for (SequenceId id = 1; id <= 3; ++id) Add(Spec(id, 3, 9));
  PlanAndCommit();
  PlanAndCommit();
  EXPECT_EQ(scheduler().statistics().running_sequences, 2);
  ASSERT_TRUE(scheduler().Finish(1, FinishReason::kCancelled).ok());
  EXPECT_THAT(Parts(Plan()), ElementsAre(Part{2, 4, 1}, Part{3, 0, 3}));
}

TEST_F(PlanTest, PreemptsTheLastInLineWhenBlocksRunOut) {
  kv_cache_.num_blocks = 3;
  Add(Spec(1, 4, 9));
  Add(Spec(2, 3, 9));
  Add(Spec(3, 2, 9));
  PlanAndCommit(7);
  // Sequence 1 needs a second block; the last in line gives up its own.
  EXPECT_THAT(Parts(PlanAndCommit(8)), ElementsAre(Part{1, 4, 1}, Part{2, 3, 1}));
  EXPECT_EQ(Usage(3).preemptions, 1);
  EXPECT_EQ(Usage(2).preemptions, 0);
  ASSERT_TRUE(scheduler().Finish(1, FinishReason::kCancelled).ok());
  // Back again with the token that it had.
  const Step step = Plan();
  EXPECT_THAT(Parts(step), ElementsAre(Part{2, 4, 1}, Part{3, 0, 3}));
  EXPECT_THAT(step.segments[1].tokens, ElementsAre(100, 101, 7));
  EXPECT_EQ(Usage(3).generated_tokens, 1);
}

TEST_F(PlanTest, NeverTakesBlocksFromOneInFlight) {
  kv_cache_.num_blocks = 2;
  options_.max_inflight_steps = 2;
  Add(Spec(1, 4, 3));
  const Step first = Plan();
  Add(Spec(2, 2, 5));
  const Step second = Plan();
  EXPECT_THAT(Parts(second), ElementsAre(Part{2, 0, 2}));
  Commit(first);
  EXPECT_TRUE(PlansNothing());  // 1 needs the block of 2, which is in flight
  EXPECT_EQ(Usage(2).preemptions, 0);
  Commit(second);
  EXPECT_THAT(Parts(Plan()), ElementsAre(Part{1, 4, 1}));
  EXPECT_EQ(Usage(2).preemptions, 1);
}

TEST_F(PlanTest, NeverTakesBlocksFromThoseFurtherUpTheLine) {
  kv_cache_.num_blocks = 2;
  Add(Spec(1, 2, 7));
  Add(Spec(2, 4, 5));
  PlanAndCommit();
  // Sequence 2 needs a second block and must wait, keeping what it has.
  EXPECT_THAT(Parts(PlanAndCommit()), ElementsAre(Part{1, 2, 1}));
  EXPECT_EQ(Usage(1).preemptions, 0);
  EXPECT_EQ(Usage(2).preemptions, 0);
}

TEST_F(PlanTest, PreemptsLowerPriorityForTheBlocksOfAPrompt) {
  kv_cache_.num_blocks = 3;
  Add(Spec(1, 2, 9));
  Add(Spec(2, 2, 9));
  PlanAndCommit();
  Add(WithPriority(Spec(3, 8, 1), 1));
  EXPECT_THAT(Parts(Plan()), ElementsAre(Part{1, 2, 1}, Part{3, 0, 8}));
  EXPECT_EQ(Usage(1).preemptions, 0);
  EXPECT_EQ(Usage(2).preemptions, 1);
}

TEST_F(PlanTest, PreemptsLowerPriorityForAPlaceInTheStep) {
  options_.max_sequences_per_step = 2;
  Add(Spec(1, 2, 9));
  Add(Spec(2, 2, 9));
  PlanAndCommit();
  Add(WithPriority(Spec(3, 8, 1), 1));
  EXPECT_THAT(Parts(PlanAndCommit()), ElementsAre(Part{1, 2, 1}, Part{3, 0, 8}));
  EXPECT_THAT(Parts(PlanAndCommit()), ElementsAre(Part{1, 3, 1}, Part{2, 0, 3}));
}

TEST_F(PlanTest, PreemptsNobodyOfTheSamePriorityForAPrompt) {
  kv_cache_.num_blocks = 3;
  Add(Spec(1, 2, 9));
  Add(Spec(2, 2, 9));
  PlanAndCommit();
  Add(Spec(3, 8, 1));
  EXPECT_THAT(Parts(Plan()), ElementsAre(Part{1, 2, 1}, Part{2, 2, 1}));
}

TEST_F(PlanTest, PreemptsNobodyInVain) {
  kv_cache_.num_blocks = 4;
  Add(WithPriority(Spec(1, 8, 2), 2));
  Add(Spec(2, 4, 2));
  PlanAndCommit();
  Add(WithPriority(Spec(3, 12, 1), 1));
  // 3 needs three blocks, but 1 keeps two: preempting 2 would not do.
  EXPECT_FALSE(PlansNothing());
  EXPECT_EQ(Usage(2).preemptions, 0);
}

}  // namespace
}  // namespace sluice
