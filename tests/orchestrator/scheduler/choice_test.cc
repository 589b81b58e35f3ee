// Externally sampled sequences, as those of beams are.
#include "tests/orchestrator/scheduler/testing.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class ChoiceTest : public SchedulerTest {
 protected:
  static SequenceSpec Outside(SequenceId id, int num_prompt, int max_new_tokens) {
    SequenceSpec spec = Spec(id, num_prompt, max_new_tokens);
    spec.externally_sampled = true;
    return spec;
  }
  void Append(SequenceId id, TokenId token) {
    const absl::Status status = scheduler().Append(id, token);
    ASSERT_TRUE(status.ok()) << status;
    CheckIntegrity();
  }
  void Fork(SequenceId from, SequenceId to, int num_tokens, TokenId token) {
    const absl::Status status = scheduler().Fork(
        {.from = from, .to = to, .num_tokens = num_tokens, .continuation = {token}});
    ASSERT_TRUE(status.ok()) << status;
    CheckIntegrity();
  }
};

TEST_F(ChoiceTest, ARowIsToldAndTheSequenceGoesOnWithWhatIsAppended) {
  Add(Outside(1, 6, 9));
  const StepOutcome outcome = Commit(Plan(), 7);
  ASSERT_THAT(outcome.rows, SizeIs(1));
  EXPECT_EQ(outcome.rows[0].position, 6);
  EXPECT_EQ(outcome.rows[0].token, 7);
  EXPECT_TRUE(PlansNothing());
  Append(1, 8);
  const Step step = Plan();
  EXPECT_THAT(Parts(step), ElementsAre(Part{1, 6, 1}));
  EXPECT_THAT(step.segments[0].tokens, ElementsAre(8));
  EXPECT_EQ(Usage(1).generated_tokens, 1);
}

TEST_F(ChoiceTest, NothingIsPlannedAheadOfAChoice) {
  options_.steps_ahead = 2;
  Add(Outside(1, 6, 9));
  const Step step = Plan();
  EXPECT_TRUE(PlansNothing());
  Commit(step);
  Append(1, 8);
  Plan();
  EXPECT_TRUE(PlansNothing());
}

// What beams do: one goes on in place, one is forked off, with every position shared.
TEST_F(ChoiceTest, AForkSharesAllThatWasComputed) {
  Add(Outside(1, 8, 9));
  PlanAndCommit();
  Fork(1, 2, 8, 21);
  Append(1, 20);
  const Step step = Plan();
  EXPECT_THAT(Parts(step), ElementsAre(Part{1, 8, 1}, Part{2, 8, 1}));
  EXPECT_THAT(step.copies, IsEmpty());
  EXPECT_EQ(scheduler().statistics().kv_cache.used_blocks, 4);
}

// A thousand positions for one, and for eight a copy of the block at the end and what is written.
TEST_F(ChoiceTest, EightOverALongPromptTakeLittleMoreThanOne) {
  options_.max_tokens_per_step = 2000;
  options_.max_positions = 2000;
  kv_cache_ = {.num_blocks = 200, .block_size = 16};
  Add(Outside(1, 1000, 100));
  PlanAndCommit();
  const int32_t of_one = scheduler().statistics().kv_cache.used_blocks;
  for (SequenceId id = 2; id <= 8; ++id) Fork(1, id, 1000, static_cast<TokenId>(id));
  Append(1, 1);
  constexpr int kWritten = 32;
  for (int i = 0; i < kWritten; ++i) {
    PlanAndCommit();
    for (SequenceId id = 1; id <= 8; ++id) Append(id, static_cast<TokenId>(id));
  }
  EXPECT_EQ(of_one, 63);
  EXPECT_LE(scheduler().statistics().kv_cache.used_blocks, of_one * 1.15 + 8.0 * kWritten / 16);
}

// Eight that can't be in the pool together: each gives way while the next one is computed.
TEST_F(ChoiceTest, OnesThatAwaitAChoiceGiveWayToThoseItWaitsFor) {
  kv_cache_ = {.num_blocks = 3, .block_size = 4};
  for (SequenceId id = 1; id <= 3; ++id) Add(Outside(id, 6, 4));
  for (int round = 0; round < 3; ++round) {
    std::vector<SequenceId> chosen;
    while (std::optional<Step> step = scheduler().Plan()) {
      for (const AcceptedRow& row : Commit(*step).rows) chosen.push_back(row.sequence);
    }
    EXPECT_THAT(chosen, ::testing::UnorderedElementsAre(1, 2, 3));
    for (SequenceId id = 1; id <= 3; ++id) Append(id, 50 + round);
  }
  EXPECT_GT(scheduler().statistics().preemptions, 0u);
}

TEST_F(ChoiceTest, OnesThatAwaitAChoiceDontFillTheirTenantsPlaces) {
  TenantPolicies policies;
  policies.others.max_running_sequences = 2;
  options_.tenant_policies = [policies] {
    return std::make_shared<const TenantPolicies>(policies);
  };
  for (SequenceId id = 1; id <= 3; ++id) Add(Outside(id, 6, 4));
  std::vector<SequenceId> chosen;
  while (std::optional<Step> step = scheduler().Plan()) {
    for (const AcceptedRow& row : Commit(*step).rows) chosen.push_back(row.sequence);
  }
  EXPECT_THAT(chosen, ::testing::UnorderedElementsAre(1, 2, 3));
}

TEST_F(ChoiceTest, AwaitsItsChoiceThroughALossAndAPause) {
  Add(Outside(1, 6, 9));
  PlanAndCommit();
  scheduler().Reset();
  CheckIntegrity();
  EXPECT_TRUE(PlansNothing());
  scheduler().Pause(1);
  Append(1, 8);
  EXPECT_TRUE(PlansNothing());
  scheduler().Resume(1);
  CheckIntegrity();
  EXPECT_THAT(Parts(PlanAndCommit()), ElementsAre(Part{1, 0, 7}));
  scheduler().Pause(1);
  CheckIntegrity();
  scheduler().Resume(1);
  CheckIntegrity();
  EXPECT_TRUE(PlansNothing());
  ASSERT_TRUE(scheduler().Finish(1, FinishReason::kStop).ok());
  CheckIntegrity();
  EXPECT_EQ(scheduler().statistics().paused_sequences, 0);
}

TEST_F(ChoiceTest, RefusesWhatNobodyAwaitsAndWhatEndsTheSequence) {
  SequenceSpec spec = Outside(1, 6, 2);
  spec.stop_tokens = {99};
  Add(spec);
  EXPECT_EQ(scheduler().Append(5, 1).code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(scheduler().Append(1, 1),
              StatusIs(absl::StatusCode::kFailedPrecondition, "awaits no choice"));
  PlanAndCommit();
  EXPECT_THAT(scheduler().Append(1, 99),
              StatusIs(absl::StatusCode::kInvalidArgument, "token 99 ends sequence 1"));
  Append(1, 1);
  PlanAndCommit();
  EXPECT_THAT(scheduler().Append(1, 1),
              StatusIs(absl::StatusCode::kInvalidArgument, "which has 1 of 2"));
}

}  // namespace
}  // namespace sluice
