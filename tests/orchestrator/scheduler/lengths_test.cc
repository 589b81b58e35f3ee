// Models whose keys depend on how long their sequence is.
#include "tests/orchestrator/scheduler/testing.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;

// Keys of sequences of up to 6 tokens are of no use to longer ones.
class LengthsTest : public SchedulerTest {
 protected:
  LengthsTest() {
    options_.rope_length_class = [](int32_t length) { return length <= 6 ? 6 : 1000; };
  }
};

TEST_F(LengthsTest, ASequenceIsComputedAgainFromTheLengthOnFromWhichItsKeysAreOthers) {
  Add(Spec(1, 4, 10));
  EXPECT_THAT(Parts(PlanAndCommit()), ElementsAre(Part{1, 0, 4}));  // 5 tokens now
  EXPECT_THAT(Parts(PlanAndCommit()), ElementsAre(Part{1, 4, 1}));  // 6
  const Step last = Plan();
  EXPECT_THAT(Parts(last), ElementsAre(Part{1, 5, 1}));
  EXPECT_EQ(last.segments[0].sequence_length, 6);
  Commit(last);  // 7
  EXPECT_EQ(scheduler().statistics().running_sequences, 0);
  const Step again = Plan();
  EXPECT_THAT(Parts(again), ElementsAre(Part{1, 0, 7}));
  EXPECT_EQ(again.segments[0].sequence_length, 7);
  Commit(again);
  EXPECT_THAT(Parts(PlanAndCommit()), ElementsAre(Part{1, 7, 1}));
  EXPECT_EQ(Usage(1).preemptions, 0);
  EXPECT_EQ(Usage(1).computed_positions, 4 + 1 + 1 + 7 + 1);
}

// A prompt beyond the limit is turned by its whole length from its first chunk on.
TEST_F(LengthsTest, ChunksOfAPromptKnowItsLength) {
  options_.max_tokens_per_step = 4;
  Add(Spec(1, 10, 3));
  for (const Part part : {Part{1, 0, 4}, Part{1, 4, 4}, Part{1, 8, 2}}) {
    const Step step = PlanAndCommit();
    EXPECT_THAT(Parts(step), ElementsAre(part));
    EXPECT_EQ(step.segments[0].sequence_length, 10);
  }
}

TEST_F(LengthsTest, ASequenceThatEndsIsNotComputedAgain) {
  Add(Spec(1, 6, 1));
  const StepOutcome outcome = Commit(Plan());
  EXPECT_EQ(outcome.finished.size(), 1u);
  EXPECT_TRUE(PlansNothing());
}

// The second sequence neither starts from blocks of other keys nor waits for them.
TEST_F(LengthsTest, BlocksAreSharedAmongLikeLengthsOnly) {
  Add(Spec(1, 6, 10));
  PlanAndCommit();  // sequence 1 has 7 tokens
  SequenceSpec sibling = Spec(2, 6, 10);
  sibling.prompt_of = 1;
  Add(sibling);
  EXPECT_THAT(Parts(PlanAndCommit()), ElementsAre(Part{1, 0, 7}, Part{2, 0, 6}));
  EXPECT_EQ(Usage(2).shared_positions, 0);
}

}  // namespace
}  // namespace sluice
