// States of sequences, the list that each is in, and what is counted of them.
#include "orchestrator/scheduler/state_table.h"

#include "tests/orchestrator/scheduler/scheduler_parts.h"

namespace sluice {
namespace {

using State = SequenceState::State;

class StateTableTest : public PartsTest {
 protected:
  StateTable& table() { return parts().table; }
  void ExpectSound() {
    const absl::Status status = table().CheckIntegrity();
    EXPECT_TRUE(status.ok()) << status;
  }
};

TEST_F(StateTableTest, RunsAWaitingSequenceAndRequeuesIt) {
  SequenceState& sequence = parts().Enqueue(Spec(1, 5, 3));
  EXPECT_EQ(table().queue().num_tokens(), 5);
  table().Run(sequence);
  EXPECT_EQ(sequence.state, State::kRunning);
  EXPECT_TRUE(table().queue().empty());
  EXPECT_EQ(sequence.tenant->num_running, 1);
  table().Requeue(sequence);
  EXPECT_EQ(sequence.state, State::kWaiting);
  EXPECT_EQ(sequence.tenant->num_running, 0);
  EXPECT_EQ(table().queue().num_sequences(), 1);
  ExpectSound();
}

TEST_F(StateTableTest, ParksWhatIsPausedUntilItIsResumed) {
  SequenceState& waiting = parts().Enqueue(Spec(1, 5, 3));
  SequenceState& running = parts().Enqueue(Spec(2, 5, 3));
  table().Run(running);
  table().SetPaused(waiting, true);
  table().SetPaused(running, true);
  EXPECT_EQ(waiting.state, State::kParked);
  EXPECT_EQ(running.state, State::kRunning);  // until its blocks are released
  table().Requeue(running);
  EXPECT_EQ(running.state, State::kParked);
  EXPECT_EQ(table().num_parked(), 2);
  ExpectSound();
  table().SetPaused(waiting, false);
  table().SetPaused(running, false);
  EXPECT_EQ(table().num_parked(), 0);
  EXPECT_EQ(table().queue().num_sequences(), 2);
  ExpectSound();
}

TEST_F(StateTableTest, KeepsParkedWhatIsPausedAndAwaitsAChoice) {
  SequenceState& sequence = parts().Enqueue(Spec(1, 5, 3));
  table().Run(sequence);
  table().SetAwaitsChoice(sequence, true);
  EXPECT_EQ(table().num_awaiting(), 1);
  table().SetPaused(sequence, true);
  table().Requeue(sequence);
  EXPECT_EQ(table().num_awaiting(), 0);
  table().SetPaused(sequence, false);
  EXPECT_EQ(sequence.state, State::kParked);
  table().SetAwaitsChoice(sequence, false);
  EXPECT_EQ(sequence.state, State::kParked);
  table().Unpark(sequence);
  EXPECT_EQ(sequence.state, State::kWaiting);
  ExpectSound();
}

TEST_F(StateTableTest, ErasesASequenceInAnyState) {
  SequenceState& waiting = parts().Enqueue(Spec(1, 5, 3));
  SequenceState& running = parts().Enqueue(Spec(2, 5, 3));
  SequenceState& parked = parts().Enqueue(Spec(3, 5, 3));
  table().Run(running);
  table().SetAwaitsChoice(running, true);
  table().SetPaused(parked, true);
  for (SequenceState* sequence : {&waiting, &running, &parked}) table().Erase(*sequence);
  EXPECT_TRUE(table().all().empty());
  EXPECT_TRUE(table().queue().empty());
  EXPECT_TRUE(table().running().empty());
  EXPECT_EQ(table().num_parked() + table().num_awaiting(), 0);
  ExpectSound();
}

TEST_F(StateTableTest, TellsASiblingFromALaterSequenceWithItsId) {
  SequenceState& first = parts().Enqueue(Spec(1, 5, 3));
  SequenceSpec spec = Spec(2, 5, 3);
  spec.prompt_of = 1;
  SequenceState& second = parts().Enqueue(std::move(spec));
  second.sibling_serial = first.position.serial;
  EXPECT_EQ(table().SiblingOf(second), &first);
  table().Erase(first);
  EXPECT_EQ(table().SiblingOf(second), nullptr);
  parts().Enqueue(Spec(1, 5, 3));
  EXPECT_EQ(table().SiblingOf(second), nullptr);
}

TEST_F(StateTableTest, FindsAStateThatContradictsTheLists) {
  SequenceState& sequence = parts().Enqueue(Spec(1, 5, 3));
  sequence.state = State::kRunning;
  EXPECT_THAT(table().CheckIntegrity(), StatusIs(absl::StatusCode::kInternal, "wrong list"));
  sequence.state = State::kParked;
  EXPECT_THAT(table().CheckIntegrity(), StatusIs(absl::StatusCode::kInternal, "for nothing"));
  sequence.state = State::kWaiting;
  sequence.paused = true;
  EXPECT_THAT(table().CheckIntegrity(), StatusIs(absl::StatusCode::kInternal, "may not run"));
}

TEST_F(StateTableTest, FindsATenantThatIsCountedWrong) {
  SequenceState& sequence = parts().Enqueue(Spec(1, 5, 3));
  ++sequence.share->num_running;
  EXPECT_THAT(table().CheckIntegrity(),
              StatusIs(absl::StatusCode::kInternal, "counted as 1, 1 running"));
  --sequence.share->num_running;
  ExpectSound();
  ++sequence.tenant->num_alive;
  EXPECT_THAT(table().CheckIntegrity(),
              StatusIs(absl::StatusCode::kInternal, "have 2 sequences; counted as 1"));
  --sequence.tenant->num_alive;
  ExpectSound();
}

}  // namespace
}  // namespace sluice
