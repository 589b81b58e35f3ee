// Sequences whose clients do not read: they give up their blocks and go on later as if nothing had
// been.
#include "tests/orchestrator/scheduler/testing.h"

namespace sluice {
namespace {

using PauseTest = SchedulerTest;

TEST_F(PauseTest, APausedSequenceHoldsNoBlocksAndGetsIntoNoStep) {
  Add(Spec(1, 5, 4));
  Add(Spec(2, 3, 4));
  PlanAndCommit();
  scheduler().Pause(1);
  CheckIntegrity();
  EXPECT_EQ(Report(1).phase, SequencePhase::kPaused);
  EXPECT_EQ(Report(1).blocks.held, 0);
  EXPECT_EQ(Parts(PlanAndCommit()), (std::vector<Part>{{2, 3, 1}}));
  EXPECT_EQ(scheduler().statistics().paused_sequences, 1);
  EXPECT_EQ(scheduler().statistics().waiting_sequences, 0);
}

TEST_F(PauseTest, AResumedSequenceComputesAgainWhatItHadAndCountsWhy) {
  Add(Spec(1, 5, 4));
  PlanAndCommit();  // the prompt, and a first token
  scheduler().Pause(1);
  EXPECT_TRUE(PlansNothing());
  scheduler().Resume(1);
  CheckIntegrity();
  EXPECT_EQ(Parts(PlanAndCommit()), (std::vector<Part>{{1, 0, 6}}));
  EXPECT_EQ(Usage(1).recomputed.after_pause, 5);
  EXPECT_EQ(Usage(1).preemptions, 0);
  EXPECT_EQ(scheduler().statistics().recomputed.after_pause, 5);
}

TEST_F(PauseTest, KeepsThePlaceInLine) {
  options_.max_sequences_per_step = 1;
  for (SequenceId id : {1, 2, 3}) Add(Spec(id, 2, 1));
  scheduler().Pause(1);
  scheduler().Resume(1);
  EXPECT_EQ(Parts(PlanAndCommit()), (std::vector<Part>{{1, 0, 2}}));
}

TEST_F(PauseTest, WhatIsUnderWayCountsBeforeTheBlocksGo) {
  Add(Spec(1, 5, 4));
  const Step step = Plan();
  scheduler().Pause(1);
  CheckIntegrity();
  EXPECT_EQ(Report(1).blocks.held, 2);
  EXPECT_EQ(Commit(step).rows.size(), 1u);
  EXPECT_EQ(Report(1).blocks.held, 0);
  EXPECT_EQ(Usage(1).generated_tokens, 1);
}

TEST_F(PauseTest, IsOverBeforeItBeginsWhereTheStepHasNotEnded) {
  Add(Spec(1, 5, 4));
  const Step step = Plan();
  scheduler().Pause(1);
  scheduler().Resume(1);
  Commit(step);
  EXPECT_EQ(Report(1).phase, SequencePhase::kRunning);
  EXPECT_EQ(Report(1).blocks.held, 2);
}

TEST_F(PauseTest, CanEndAndCanBeLostMeanwhile) {
  Add(Spec(1, 5, 4));
  Add(Spec(2, 5, 4));
  Plan();
  scheduler().Pause(1);
  scheduler().AbandonSteps();
  CheckIntegrity();
  EXPECT_EQ(Report(1).blocks.held, 0);
  scheduler().Reset();
  CheckIntegrity();
  ASSERT_TRUE(scheduler().Finish(1, FinishReason::kCancelled).ok());
  CheckIntegrity();
  EXPECT_EQ(scheduler().statistics().paused_sequences, 0);
  EXPECT_EQ(Parts(PlanAndCommit()), (std::vector<Part>{{2, 0, 5}}));
}

TEST_F(PauseTest, DoesNotKeepASiblingWaitingForItsPrompt) {
  Add(Spec(1, 5, 4));
  SequenceSpec sibling = Spec(2, 5, 4);
  sibling.prompt_of = 1;
  Add(sibling);
  scheduler().Pause(1);
  EXPECT_EQ(Parts(PlanAndCommit()), (std::vector<Part>{{2, 0, 5}}));
}

TEST_F(PauseTest, IgnoresWhoIsNotAlive) {
  scheduler().Pause(7);
  scheduler().Resume(7);
  CheckIntegrity();
}

TEST_F(PauseTest, TotalsCountWhatAllSequencesUsed) {
  kv_cache_ = {.num_blocks = 4, .block_size = 4};
  Add(Spec(1, 7, 6));
  Add(Spec(2, 7, 6));
  while (scheduler().Report(1).ok() || scheduler().Report(2).ok()) PlanAndCommit();
  const SchedulerStatistics statistics = scheduler().statistics();
  EXPECT_EQ(statistics.started_sequences, 2u);
  EXPECT_GE(statistics.preemptions, 1u);
  EXPECT_GT(statistics.recomputed.after_preemption, 0);
  EXPECT_EQ(statistics.computed_positions,
            static_cast<uint64_t>(12 + 12 + statistics.recomputed.after_preemption));
}

}  // namespace
}  // namespace sluice
