// The ledger of steps in flight, and what it counts of sequences.
#include "orchestrator/scheduler/steps_in_flight.h"

#include "tests/orchestrator/scheduler/scheduler_parts.h"

namespace sluice {
namespace {

class StepsInFlightTest : public PartsTest {
 protected:
  StepsInFlight& flights() { return parts().flights; }
  SequenceState& Running(SequenceId id, int num_prompt) {
    SequenceState& sequence = parts().Enqueue(Spec(id, num_prompt, 5));
    parts().table.Run(sequence);
    return sequence;
  }
  absl::Status Check() { return flights().CheckIntegrity(parts().table, 4); }
};

TEST_F(StepsInFlightTest, CountsPositionsAndTheTokenThatTheyChoose) {
  SequenceState& sequence = Running(1, 5);
  parts().Fly(sequence, 3);
  EXPECT_EQ(sequence.num_planned, 3);
  EXPECT_EQ(sequence.flight.num_promised, 0);
  parts().Fly(sequence, 2);
  EXPECT_EQ(sequence.flight.num_steps, 2);
  EXPECT_EQ(sequence.flight.num_promised, 1);
  EXPECT_EQ(sequence.flight.last_promise, (ChosenBy{.step = 2, .row = 0}));
  EXPECT_EQ(sequence.length(), 6);
  EXPECT_EQ(sequence.num_pending(), 1);
  EXPECT_TRUE(Check().ok());
}

TEST_F(StepsInFlightTest, PromisesNoTokenOfAnExternallySampledSequence) {
  SequenceSpec spec = Spec(1, 2, 5);
  spec.externally_sampled = true;
  SequenceState& sequence = parts().Enqueue(std::move(spec));
  parts().table.Run(sequence);
  parts().Fly(sequence, 2);
  EXPECT_EQ(sequence.flight.num_promised, 0);
}

TEST_F(StepsInFlightTest, LandsWrongDraftsBehindWhatIsComputed) {
  SequenceState& sequence = Running(1, 1);
  flights().Begin(1);
  Segment segment = {.sequence = 1, .tokens = {100, 7, 8}, .num_drafts = 2};
  for (int offset = 0; offset < 3; ++offset) segment.rows.push_back({.offset = offset});
  flights().Add(sequence, segment, {7, 8});
  flights().Complete();
  EXPECT_EQ(sequence.flight.num_promised, 3);
  EXPECT_EQ(sequence.flight.num_drafts, 2);
  const PlannedStep step = flights().TakeOldest();
  StepsInFlight::Land(sequence, step.segments[0], /*end=*/2, /*num_wrong_drafts=*/1);
  EXPECT_EQ(sequence.num_computed, 2);
  EXPECT_EQ(sequence.num_planned, 2);
  EXPECT_EQ(sequence.flight.num_steps, 0);
  EXPECT_EQ(sequence.flight.num_promised, 2);  // the tokens to accept
}

TEST_F(StepsInFlightTest, ForgetsASequenceInEveryStepItIsPartOf) {
  SequenceState& sequence = Running(1, 5);
  SequenceState& other = Running(2, 5);
  parts().Fly(sequence, 2);
  parts().Fly(other, 2);
  parts().Fly(sequence, 3);
  flights().Forget(sequence);
  EXPECT_EQ(sequence.num_planned, 0);
  EXPECT_EQ(sequence.flight.num_steps, 0);
  EXPECT_EQ(flights().TakeOldest().segments[0].sequence, nullptr);
  EXPECT_EQ(flights().TakeOldest().segments[0].sequence, &other);
  EXPECT_EQ(flights().TakeOldest().segments[0].sequence, nullptr);
}

TEST_F(StepsInFlightTest, GivesEveryStepAnIdUnlessItIsDropped) {
  SequenceState& sequence = Running(1, 5);
  EXPECT_EQ(flights().next_id(), 1u);
  flights().Begin(1);
  flights().Drop();
  parts().Fly(sequence, 1);
  EXPECT_EQ(flights().last_id(), 1u);
  flights().Clear();
  EXPECT_EQ(flights().next_id(), 2u);
}

TEST_F(StepsInFlightTest, RefusesResultsThatDoNotFitTheOldestStep) {
  SequenceState& sequence = Running(1, 2);
  parts().Fly(sequence, 2);
  parts().Fly(sequence, 1);
  EXPECT_TRUE(flights().CheckResults(1, 1, {}).ok());
  EXPECT_THAT(flights().CheckResults(2, 1, {}),
              StatusIs(absl::StatusCode::kFailedPrecondition, "before step 1"));
  EXPECT_THAT(flights().CheckResults(3, 1, {}),
              StatusIs(absl::StatusCode::kNotFound, "never planned"));
  EXPECT_THAT(flights().CheckResults(1, 2, {}),
              StatusIs(absl::StatusCode::kInvalidArgument, "2 result rows"));
  EXPECT_THAT(flights().CheckResults(1, 1, {1}),
              StatusIs(absl::StatusCode::kInvalidArgument, "deferred rows"));
}

TEST_F(StepsInFlightTest, FindsAFlightThatIsCountedWrong) {
  SequenceState& sequence = Running(1, 5);
  parts().Fly(sequence, 2);
  ++sequence.flight.num_steps;
  EXPECT_THAT(Check(), StatusIs(absl::StatusCode::kInternal, "claims to be in 2"));
  --sequence.flight.num_steps;
  sequence.num_computed = 1;
  EXPECT_THAT(Check(), StatusIs(absl::StatusCode::kInternal, "does not follow"));
}

}  // namespace
}  // namespace sluice
