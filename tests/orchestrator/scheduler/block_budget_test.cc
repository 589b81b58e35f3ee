// Blocks that sequences reserve, and the sequences that are preempted for them.
#include "orchestrator/scheduler/block_budget.h"

#include "tests/orchestrator/scheduler/scheduler_parts.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class BlockBudgetTest : public PartsTest {
 protected:
  BlockBudget& budget() { return parts().budget; }
  SequenceState& Enqueue(SequenceId id, int num_prompt, int priority = 0) {
    SequenceSpec spec = Spec(id, num_prompt, 20);
    spec.priority = priority;
    return parts().Enqueue(std::move(spec));
  }
  SequenceState& Run(SequenceId id, int num_prompt, int priority = 0) {
    SequenceState& sequence = Enqueue(id, num_prompt, priority);
    EXPECT_TRUE(budget().Admit(sequence)) << id;
    return sequence;
  }
  int32_t available() { return parts().kv_cache.num_available_blocks(); }
};

TEST_F(BlockBudgetTest, AdmitsWithBlocksForAllTokensOrNotAtAll) {
  Run(1, 32);
  EXPECT_EQ(available(), 2);
  SequenceState& second = Enqueue(2, 12);
  EXPECT_FALSE(budget().Admit(second));
  EXPECT_EQ(second.state, SequenceState::State::kWaiting);
  EXPECT_EQ(available(), 2);
  EXPECT_EQ(second.refused_with_blocks, 2);
  EXPECT_TRUE(budget().Admit(Enqueue(3, 8)));
  EXPECT_EQ(budget().num_started(), 2u);
}

TEST_F(BlockBudgetTest, PreemptsALowerPriorityForOneToBeAdmitted) {
  SequenceState& low = Run(1, 20, /*priority=*/-1);
  Run(2, 16);
  SequenceState& waiting = Enqueue(3, 8);
  EXPECT_TRUE(budget().IsUrgent(waiting));
  EXPECT_TRUE(budget().Admit(waiting));
  EXPECT_EQ(low.state, SequenceState::State::kWaiting);
  EXPECT_EQ(low.usage.preemptions, 1);
  EXPECT_EQ(low.recompute_reason, RecomputeReason::kPreemption);
  EXPECT_THAT(budget().TakePreempted(), ElementsAre(1));
  EXPECT_THAT(budget().TakePreempted(), IsEmpty());
}

TEST_F(BlockBudgetTest, PreemptsOneBehindForBlocksOfARunningSequence) {
  SequenceState& first = Run(1, 20);
  SequenceState& second = Run(2, 20);
  EXPECT_FALSE(budget().ReserveBlocks(second, 21));  // none is behind it
  EXPECT_FALSE(budget().contended());
  EXPECT_TRUE(budget().ReserveBlocks(first, 21));
  EXPECT_FALSE(second.is_running());
}

TEST_F(BlockBudgetTest, PreemptsNoSequenceInFlightAndSaysThatItsBlocksAreMissed) {
  SequenceState& first = Run(1, 20);
  SequenceState& second = Run(2, 20);
  parts().Fly(second, 20);
  EXPECT_FALSE(budget().ReserveBlocks(first, 21));
  EXPECT_TRUE(second.is_running());
  EXPECT_TRUE(budget().contended());
  budget().BeginStep();
  EXPECT_FALSE(budget().contended());
}

TEST_F(BlockBudgetTest, PreemptsNothingInVain) {
  SequenceState& low = Run(1, 4, /*priority=*/-1);
  Run(2, 28);
  EXPECT_FALSE(budget().Admit(Enqueue(3, 16)));
  EXPECT_TRUE(low.is_running());
  EXPECT_EQ(budget().num_preemptions(), 0u);
}

TEST_F(BlockBudgetTest, PreemptsWhatAwaitsAChoiceForItsPriority) {
  SequenceState& awaiting = Run(1, 20);
  Run(2, 16);
  parts().table.SetAwaitsChoice(awaiting, true);
  EXPECT_TRUE(budget().Admit(Enqueue(3, 8)));
  EXPECT_EQ(awaiting.state, SequenceState::State::kParked);
}

TEST_F(BlockBudgetTest, ShortensDraftsToSpareBlocks) {
  SequenceState& sequence = Run(1, 3);
  sequence.num_computed = sequence.num_planned = 2;
  Run(2, 32);
  EXPECT_EQ(available(), 1);
  Tokens draft = {1, 2, 3, 4, 5, 6};
  budget().ReserveForDraft(sequence, draft);
  EXPECT_EQ(draft.size(), 5u);  // up to position 8, in two blocks
  EXPECT_EQ(available(), 0);
  Enqueue(3, 4);
  draft = {1, 2, 3, 4, 5, 6};
  budget().ReserveForDraft(sequence, draft);
  EXPECT_EQ(draft.size(), 5u);  // what it has already
}

TEST_F(BlockBudgetTest, RunsAForkOnTheBlocksOfItsSource) {
  SequenceState& source = Run(1, 6);
  source.num_computed = source.num_planned = 6;
  SequenceState& fork = parts().NewSequence(Spec(2, 6, 20));
  EXPECT_TRUE(budget().RunFork(source, fork, 5));
  EXPECT_EQ(available(), 8);
  EXPECT_EQ(fork.usage.shared_positions, 5);
  EXPECT_TRUE(budget().ReserveBlocks(fork, 6));
  EXPECT_EQ(budget().TakeCopies().size(), 1u);
  EXPECT_EQ(available(), 7);
  SequenceState& other = parts().NewSequence(Spec(3, 6, 20));
  EXPECT_FALSE(budget().RunFork(source, other, 0));
}

TEST_F(BlockBudgetTest, ReleasesBlocksAndRemembersWhatWasComputed) {
  SequenceState& sequence = Run(1, 6);
  sequence.num_computed = sequence.num_planned = 5;
  budget().ReleaseAndRequeue(sequence, RecomputeReason::kLoss);
  EXPECT_EQ(available(), 10);
  EXPECT_EQ(sequence.num_once_computed, 5);
  EXPECT_EQ(sequence.num_computed, 0);
  EXPECT_EQ(budget().num_preemptions(), 0u);
}

}  // namespace
}  // namespace sluice
