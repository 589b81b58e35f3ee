// Steps that are planned before the tokens that they begin with are known.
#include "tests/orchestrator/scheduler/testing.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class AheadTest : public SchedulerTest {
 protected:
  AheadTest() { options_.steps_ahead = 1; }
};

TEST_F(AheadTest, NamesATokenByTheRowThatChoosesIt) {
  Add(Spec(1, 3, 5));
  Add(Spec(2, 2, 5));
  const Step first = Plan();
  EXPECT_THAT(Parts(first), ElementsAre(Part{1, 0, 3}, Part{2, 0, 2}));
  EXPECT_EQ(first.segments[0].chosen_by, std::nullopt);
  const Step second = Plan();
  EXPECT_THAT(Parts(second), ElementsAre(Part{1, 3, 1}, Part{2, 2, 1}));
  EXPECT_EQ(second.segments[0].chosen_by, (ChosenBy{.step = first.id, .row = 0}));
  EXPECT_EQ(second.segments[1].chosen_by, (ChosenBy{.step = first.id, .row = 1}));
  EXPECT_THAT(second.segments[0].tokens, ElementsAre(0));
  EXPECT_EQ(second.segments[0].sequence_length, 4);
  EXPECT_TRUE(PlansNothing()) << "one step ahead";
  Commit(first, 7);
  const Step third = Plan();
  EXPECT_THAT(Parts(third), ElementsAre(Part{1, 4, 1}, Part{2, 3, 1}));
  EXPECT_EQ(third.segments[0].chosen_by, (ChosenBy{.step = second.id, .row = 0}));
}

TEST_F(AheadTest, DropsTheRowOfASequenceThatTurnsOutToHaveEnded) {
  SequenceSpec spec = Spec(1, 3, 5);
  spec.stop_tokens = {9};
  Add(std::move(spec));
  const Step first = Plan(), second = Plan();
  const StepOutcome end = Commit(first, 9);
  ASSERT_THAT(end.finished, ::testing::SizeIs(1));
  EXPECT_EQ(end.finished[0].usage.generated_tokens, 1);
  Add(Spec(1, 2, 5));  // its id means another one now
  const StepOutcome surplus = Commit(second, 4);
  EXPECT_THAT(surplus.rows, IsEmpty());
  EXPECT_THAT(surplus.finished, IsEmpty());
  EXPECT_THAT(Parts(Plan()), ElementsAre(Part{1, 0, 2}));
}

TEST_F(AheadTest, GoesNoFurtherThanASequenceIsSureTo) {
  Add(Spec(1, 3, 2));
  Plan();
  EXPECT_THAT(Parts(Plan()), ElementsAre(Part{1, 3, 1}));
  Add(Spec(2, 3, 1));
  Commit(Step{.id = 1, .segments = {{.rows = {{}}}}});
  EXPECT_THAT(Parts(Plan()), ElementsAre(Part{2, 0, 3}));
  Commit(Step{.id = 2, .segments = {{.rows = {{}}}}});
  EXPECT_TRUE(PlansNothing());
}

TEST_F(AheadTest, HasSeveralChunksOfAPromptInFlight) {
  options_.max_tokens_per_step = 4;
  options_.max_inflight_steps = 2;
  Add(Spec(1, 10, 2));
  const Step first = Plan();
  EXPECT_THAT(Parts(first), ElementsAre(Part{1, 0, 4}));
  EXPECT_THAT(Parts(Plan()), ElementsAre(Part{1, 4, 4}));
  const Step last = Plan();
  EXPECT_THAT(Parts(last), ElementsAre(Part{1, 8, 2}));
  EXPECT_EQ(last.num_rows(), 1);
  EXPECT_TRUE(PlansNothing());
  Commit(first);
  EXPECT_TRUE(PlansNothing()) << "two steps ahead of the token";
  Commit(Step{.id = 2});
  EXPECT_THAT(Parts(Plan()), ElementsAre(Part{1, 10, 1}));
}

// With stages, groups of sequences follow each other through them; each is one step ahead.
TEST_F(AheadTest, SpreadsSequencesOverTheStagesAllTheSame) {
  options_.max_inflight_steps = 2;
  for (SequenceId id = 1; id <= 4; ++id) Add(Spec(id, 2, 9));
  const Step prompts = PlanAndCommit();
  EXPECT_THAT(Parts(Plan()), ElementsAre(Part{1, 2, 1}, Part{2, 2, 1}));
  EXPECT_THAT(Parts(Plan()), ElementsAre(Part{3, 2, 1}, Part{4, 2, 1}));
  EXPECT_THAT(Parts(Plan()), ElementsAre(Part{1, 3, 1}, Part{2, 3, 1}));
  EXPECT_TRUE(PlansNothing());
}

TEST_F(AheadTest, WaitsWhereSomebodyNeedsTheBlocksOfThoseInFlight) {
  kv_cache_ = {.num_blocks = 4, .block_size = 4};
  Add(Spec(1, 7, 6));
  Add(Spec(2, 7, 6));
  const Step first = Plan(), second = Plan();
  EXPECT_THAT(Parts(second), ElementsAre(Part{1, 7, 1}, Part{2, 7, 1}));
  Commit(first);
  EXPECT_TRUE(PlansNothing()) << "the first in line lacks a block, the second is in flight";
  Commit(second);
  EXPECT_THAT(Parts(Plan()), ElementsAre(Part{1, 8, 1}));
  EXPECT_EQ(Usage(2).preemptions, 1);
}

TEST_F(AheadTest, StopsBeforeALengthWithOtherKeys) {
  options_.rope_length_class = [](int32_t length) { return length <= 4 ? 4 : 1000; };
  Add(Spec(1, 3, 5));
  const Step first = Plan(), second = Plan();
  EXPECT_EQ(second.segments[0].sequence_length, 4);
  Commit(first);
  EXPECT_TRUE(PlansNothing());
  Commit(second);
  EXPECT_THAT(Parts(Plan()), ElementsAre(Part{1, 0, 5}));
}

TEST_F(AheadTest, BeginsAfterWhatIsKnownWhenStepsAreLost) {
  Add(Spec(1, 3, 5));
  PlanAndCommit(41);
  Plan();
  Plan();
  scheduler().AbandonSteps();
  CheckIntegrity();
  const Step again = Plan();
  EXPECT_THAT(Parts(again), ElementsAre(Part{1, 3, 1}));
  EXPECT_EQ(again.segments[0].chosen_by, std::nullopt);
  EXPECT_THAT(again.segments[0].tokens, ElementsAre(41));
  Plan();
  scheduler().Reset();
  CheckIntegrity();
  EXPECT_THAT(Parts(Plan()), ElementsAre(Part{1, 0, 4}));
}

}  // namespace
}  // namespace sluice
