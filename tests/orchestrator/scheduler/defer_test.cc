// Rows that have no token yet: their sequences sit out steps, and nothing of them is lost or computed
// from a token that is not there.
#include "tests/orchestrator/scheduler/testing.h"

namespace sluice {
namespace {

class DeferTest : public SchedulerTest {
 protected:
  StepOutcome CommitDeferring(const Step& step, const std::vector<int32_t>& rows,
                              TokenId token = 1) {
    const std::vector<TokenId> tokens(step.num_rows(), token);
    absl::StatusOr<StepOutcome> outcome = scheduler().Commit(step.id, tokens, rows);
    EXPECT_TRUE(outcome.ok()) << outcome.status();
    CheckIntegrity();
    return outcome.value_or(StepOutcome());
  }
};

TEST_F(DeferTest, TheSequenceSitsOutAndOthersGoOn) {
  Add(Spec(1, 5, 4));
  Add(Spec(2, 3, 4));
  const StepOutcome outcome = CommitDeferring(Plan(), {0});
  EXPECT_EQ(outcome.deferred, std::vector<SequenceId>{1});
  ASSERT_EQ(outcome.rows.size(), 1u);
  EXPECT_EQ(outcome.rows[0].sequence, 2u);
  EXPECT_EQ(Usage(1).generated_tokens, 0);
  EXPECT_EQ(Report(1).phase, SequencePhase::kRunning) << "it keeps its blocks";
  EXPECT_EQ(Parts(PlanAndCommit()), (std::vector<Part>{{2, 3, 1}}));
  scheduler().Return(1);
  EXPECT_EQ(Parts(PlanAndCommit()), (std::vector<Part>{{1, 4, 1}, {2, 4, 1}}))
      << "the position of the row is computed again, those before are not";
  EXPECT_EQ(Usage(1).generated_tokens, 1);
}

TEST_F(DeferTest, WhatWasPlannedBehindItIsDropped) {
  options_.steps_ahead = 1;
  Add(Spec(1, 5, 6));
  PlanAndCommit();
  const Step step = Plan(), ahead = Plan();
  ASSERT_TRUE(ahead.segments[0].chosen_by.has_value());
  EXPECT_TRUE(CommitDeferring(step, {0}).rows.empty());
  EXPECT_TRUE(Commit(ahead, 9).rows.empty());
  EXPECT_TRUE(PlansNothing());
  scheduler().Return(1);
  const Step again = Plan();
  EXPECT_EQ(Parts(again), (std::vector<Part>{{1, 5, 1}}));
  EXPECT_TRUE(PlansNothing()) << "its row may be deferred again";
  Commit(again);
  EXPECT_EQ(Usage(1).generated_tokens, 2);
  Plan();
  EXPECT_TRUE(Plan().segments[0].chosen_by.has_value()) << "it goes ahead once it has a token";
}

TEST_F(DeferTest, ASequenceThatEndsMeanwhileLeavesNothing) {
  Add(Spec(1, 5, 4));
  CommitDeferring(Plan(), {0});
  ASSERT_TRUE(scheduler().Finish(1, FinishReason::kCancelled).ok());
  scheduler().Return(1);
  CheckIntegrity();
  EXPECT_EQ(scheduler().kv_cache().statistics().num_sequences, 0);
}

TEST_F(DeferTest, SurvivesTheLossOfTheReplica) {
  Add(Spec(1, 5, 4));
  CommitDeferring(Plan(), {0});
  scheduler().Reset();
  CheckIntegrity();
  EXPECT_TRUE(PlansNothing());
  scheduler().Return(1);
  EXPECT_EQ(Parts(PlanAndCommit()), (std::vector<Part>{{1, 0, 5}}));
}

TEST_F(DeferTest, RefusesRowsThatTheStepDoesNotHave) {
  Add(Spec(1, 5, 4));
  const Step step = Plan();
  for (const std::vector<int32_t>& rows : std::vector<std::vector<int32_t>>{{1}, {-1}, {1, 0}}) {
    const std::vector<TokenId> tokens = {1};
    EXPECT_THAT(scheduler().Commit(step.id, tokens, rows).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, "deferred rows"));
  }
  EXPECT_EQ(Commit(step).rows.size(), 1u);
}

TEST_F(DeferTest, TimeSpentOnATenantCountsAsTokens) {
  options_.max_sequences_per_step = 1;
  scheduler().SetStepCost({.fixed = 0.01, .per_position = 0.001});
  for (const char* tenant : {"costly", "other"}) {
    for (int i = 0; i < 2; ++i) {
      SequenceSpec spec = Spec((tenant[0] == 'c' ? 1 : 11) + i, 2, 1);
      spec.tenant = tenant;
      Add(spec);
    }
  }
  scheduler().BillTime("costly", 0.5);
  scheduler().BillTime("nobody", 0.5);
  EXPECT_EQ(Parts(PlanAndCommit())[0].sequence, 11u);
  EXPECT_EQ(Parts(PlanAndCommit())[0].sequence, 12u);
  EXPECT_EQ(tenants().all().at("costly").served, 1000);
}

TEST_F(DeferTest, TimeSpentOnATenantWithoutSequencesIsNotForgotten) {
  options_.max_sequences_per_step = 1;
  scheduler().SetStepCost({.fixed = 0.01, .per_position = 0.001});
  const auto add = [this](const char* tenant, SequenceId id) {
    SequenceSpec spec = Spec(id, 2, 1);
    spec.tenant = tenant;
    Add(spec);
  };
  add("other", 11);
  add("other", 12);
  scheduler().BillTime("costly", 0.5);  // its requests were refused once they had been worked on
  add("costly", 1);
  EXPECT_EQ(Parts(PlanAndCommit())[0].sequence, 11u);
  EXPECT_EQ(Parts(PlanAndCommit())[0].sequence, 12u);
  EXPECT_EQ(Parts(PlanAndCommit())[0].sequence, 1u);
}

TEST_F(DeferTest, TimeThatNobodyWaitedForIsNoDebt) {
  options_.max_sequences_per_step = 1;
  scheduler().SetStepCost({.fixed = 0.01, .per_position = 0.001});
  scheduler().BillTime("alone", 10);
  const auto add = [this](const char* tenant, SequenceId id) {
    SequenceSpec spec = Spec(id, 2, 1);
    spec.tenant = tenant;
    Add(spec);
  };
  add("alone", 1);
  add("new", 11);
  add("new", 12);
  std::vector<SequenceId> order;
  for (int i = 0; i < 3; ++i) order.push_back(Parts(PlanAndCommit())[0].sequence);
  EXPECT_NE(order.back(), 1u) << "it waits for none but its share";
}

}  // namespace
}  // namespace sluice
