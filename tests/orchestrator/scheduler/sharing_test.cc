// Sequences that start from a sibling's prompt.
#include "tests/orchestrator/scheduler/testing.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

class SharingTest : public SchedulerTest {
 protected:
  SequenceSpec Sibling(SequenceId id, SequenceId of, int num_prompt, int max_new_tokens) {
    SequenceSpec spec = Spec(id, num_prompt, max_new_tokens);
    spec.prompt_of = of;
    return spec;
  }
};

TEST_F(SharingTest, HoldsASiblingBackUntilThePromptIsComputedAndForksItOff) {
  options_.max_tokens_per_step = 8;
  Add(Spec(1, 10, 5));
  Add(Sibling(2, 1, 10, 5));
  EXPECT_THAT(Parts(PlanAndCommit()), ElementsAre(Part{1, 0, 8}));
  EXPECT_THAT(Parts(PlanAndCommit()), ElementsAre(Part{1, 8, 2}));
  const Step step = Plan();
  EXPECT_THAT(Parts(step), ElementsAre(Part{1, 10, 1}, Part{2, 9, 1}));
  const std::vector<BlockId> first = Table(1);
  const std::vector<BlockId> second = Table(2);
  ASSERT_THAT(first, SizeIs(3));
  ASSERT_THAT(second, SizeIs(3));
  EXPECT_EQ(first[0], second[0]);
  EXPECT_EQ(first[1], second[1]);
  EXPECT_THAT(step.copies, ElementsAre(BlockCopy{.source = first[2], .destination = second[2]}));
  EXPECT_EQ(Usage(2).shared_positions, 9);
  EXPECT_EQ(Usage(2).copied_blocks, 1);
  EXPECT_EQ(scheduler().statistics().kv_cache.shared_blocks, 2);
}

TEST_F(SharingTest, ComputesTheLastPositionOfAPromptThatFillsItsBlocks) {
  Add(Spec(1, 8, 5));
  Add(Sibling(2, 1, 8, 5));
  PlanAndCommit();
  EXPECT_THAT(Parts(Plan()), ElementsAre(Part{1, 8, 1}, Part{2, 7, 1}));
}

TEST_F(SharingTest, LetsOthersPassASiblingThatIsHeldBack) {
  options_.max_tokens_per_step = 6;
  Add(Spec(1, 5, 5));
  Add(Sibling(2, 1, 5, 5));
  Add(Spec(3, 3, 5));
  EXPECT_THAT(Parts(Plan()), ElementsAre(Part{1, 0, 5}, Part{3, 0, 1}));
}

TEST_F(SharingTest, WaitsForCommittedPositionsOnly) {
  options_.max_inflight_steps = 2;
  Add(Spec(1, 8, 5));
  Add(Sibling(2, 1, 8, 5));
  const Step step = Plan();
  EXPECT_TRUE(PlansNothing());
  Commit(step);
  EXPECT_THAT(Parts(Plan()), ElementsAre(Part{1, 8, 1}, Part{2, 7, 1}));
}

TEST_F(SharingTest, ComputesThePromptItselfWhenTheSiblingIsGone) {
  Add(Spec(1, 8, 5));
  Add(Sibling(2, 1, 8, 5));
  Add(Sibling(3, 99, 8, 5));
  ASSERT_TRUE(scheduler().Finish(1, FinishReason::kCancelled).ok());
  EXPECT_THAT(Parts(Plan()), ElementsAre(Part{2, 0, 8}, Part{3, 0, 8}));
}

TEST_F(SharingTest, SharesNothingWithALaterSequenceThatHasTheSiblingsId) {
  options_.max_tokens_per_step = 8;
  Add(Spec(1, 16, 5));
  Add(Sibling(2, 1, 16, 5));
  ASSERT_TRUE(scheduler().Finish(1, FinishReason::kCancelled).ok());
  SequenceSpec other = Spec(1, 8, 5);
  other.prompt[0] = 99;
  other.priority = 1;
  Add(other);
  EXPECT_THAT(Parts(PlanAndCommit()), ElementsAre(Part{1, 0, 8}));
  EXPECT_THAT(Parts(Plan()), ElementsAre(Part{1, 8, 1}, Part{2, 0, 7}));
}

TEST_F(SharingTest, KeepsTheSharedBlocksOfASiblingThatEnds) {
  Add(Spec(1, 8, 5));
  Add(Sibling(2, 1, 8, 5));
  PlanAndCommit();
  PlanAndCommit();
  const BlockId shared = Table(1)[0];
  ASSERT_TRUE(scheduler().Finish(1, FinishReason::kStop).ok());
  CheckIntegrity();
  Plan();
  EXPECT_EQ(Table(2)[0], shared);
}

TEST_F(SharingTest, ComputesThePromptItselfWhenItComesBeforeTheSibling) {
  Add(Spec(1, 8, 5));
  SequenceSpec urgent = Sibling(2, 1, 8, 5);
  urgent.priority = 1;
  Add(urgent);
  EXPECT_THAT(Parts(Plan()), ElementsAre(Part{2, 0, 8}, Part{1, 0, 8}));
}

TEST_F(SharingTest, ComputesAPromptThatIsScored) {
  Add(Spec(1, 8, 5));
  SequenceSpec scored = Sibling(2, 1, 8, 5);
  scored.score_prompt = true;
  Add(scored);
  const Step step = Plan();
  EXPECT_THAT(Parts(step), ElementsAre(Part{1, 0, 8}, Part{2, 0, 8}));
  EXPECT_THAT(step.segments[1].rows, SizeIs(8));
}

TEST_F(SharingTest, SharesAgainAfterAReset) {
  Add(Spec(1, 8, 5));
  Add(Sibling(2, 1, 8, 5));
  PlanAndCommit();
  PlanAndCommit();
  scheduler().Reset();
  CheckIntegrity();
  EXPECT_THAT(Parts(PlanAndCommit()), ElementsAre(Part{1, 0, 10}));
  EXPECT_THAT(Parts(PlanAndCommit()), ElementsAre(Part{1, 10, 1}, Part{2, 8, 1}));
}

}  // namespace
}  // namespace sluice
