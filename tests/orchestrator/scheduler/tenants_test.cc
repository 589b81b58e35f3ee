// Tenants share by weight, and one's load does not keep another waiting.
#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/orchestrator/scheduler/testing.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

constexpr auto kExhausted = absl::StatusCode::kResourceExhausted;

class TenantsTest : public SchedulerTest {
 protected:
  void AddOf(const std::string& tenant, SequenceId id, int num_prompt, int max_new_tokens) {
    Add(SpecOf(tenant, id, num_prompt, max_new_tokens));
  }
  TenantsTest() {
    options_.tenant_policies = [this] { return policies_; };
  }
  // From the next Add on.
  void Grant(const TenantPolicies& policies) {
    policies_ = std::make_shared<const TenantPolicies>(policies);
  }
  static SequenceSpec SpecOf(const std::string& tenant, SequenceId id, int num_prompt,
                             int max_new_tokens) {
    SequenceSpec spec = Spec(id, num_prompt, max_new_tokens);
    spec.tenant = tenant;
    return spec;
  }

  // Tokens computed per tenant in `num_steps`, with every tenant of `ids` always having `backlog`
  // sequences of such a size.
  std::map<std::string, int> Serve(const std::vector<std::string>& tenants, int num_steps,
                                   int backlog = 4) {
    std::map<std::string, int> served, alive;
    std::map<SequenceId, std::string> owners;
    SequenceId next = 1000;
    for (int step = 0; step < num_steps; ++step) {
      for (const std::string& tenant : tenants) {
        for (; alive[tenant] < backlog; ++alive[tenant]) {
          owners[next] = tenant;
          AddOf(tenant, next++, 4, 4);
        }
      }
      const Step planned = Plan();
      for (const Segment& segment : planned.segments) {
        served[owners[segment.sequence]] += static_cast<int>(segment.tokens.size());
      }
      for (const FinishedSequence& finished : Commit(planned).finished) {
        --alive[owners[finished.sequence]];
      }
    }
    return served;
  }

 private:
  std::shared_ptr<const TenantPolicies> policies_;
};

TEST_F(TenantsTest, TheOneServedLessGoesFirst) {
  options_.max_tokens_per_step = 4;
  options_.max_sequences_per_step = 8;
  for (SequenceId id = 1; id <= 3; ++id) AddOf("a", id, 4, 1);
  AddOf("b", 4, 4, 1);
  AddOf("b", 5, 4, 1);
  for (const SequenceId id : {4, 1, 5, 2, 3}) {
    EXPECT_THAT(Parts(PlanAndCommit()), ElementsAre(Part{id, 0, 4}));
  }
}

TEST_F(TenantsTest, PrioritiesComeBeforeTenants) {
  options_.max_tokens_per_step = 4;
  AddOf("a", 1, 4, 1);
  AddOf("a", 2, 4, 1);
  SequenceSpec low = SpecOf("b", 3, 4, 1);
  low.priority = -1;
  Add(low);
  for (const SequenceId id : {1, 2, 3})
    EXPECT_THAT(Parts(PlanAndCommit()), ElementsAre(Part{id, 0, 4}));
}

TEST_F(TenantsTest, OneThatHadNothingToDoHasNoCredit) {
  options_.max_tokens_per_step = 4;
  for (SequenceId id = 1; id <= 6; ++id) AddOf("a", id, 4, 1);
  for (int i = 0; i < 3; ++i) PlanAndCommit();
  for (SequenceId id = 11; id <= 13; ++id) AddOf("b", id, 4, 1);
  std::vector<SequenceId> order;
  for (int i = 0; i < 4; ++i) order.push_back(PlanAndCommit().segments.front().sequence);
  EXPECT_THAT(order, ElementsAre(11, 4, 12, 5));
}

TEST_F(TenantsTest, ShareByWeight) {
  options_.max_tokens_per_step = 4;
  options_.max_sequences_per_step = 2;
  TenantPolicies policies;
  policies.named["gold"].weight = 3;
  Grant(policies);
  std::map<std::string, int> served = Serve({"gold", "other"}, 600);
  EXPECT_NEAR(served["gold"], 3 * served["other"], 0.15 * served["gold"]);
  policies.named["gold"].weight = 1;
  Grant(policies);
  served = Serve({"new", "newer"}, 600);
  EXPECT_NEAR(served["new"], served["newer"], 0.1 * served["new"]);
}

TEST_F(TenantsTest, WhatIsGrantedLaterCountsForThoseThatWaitAlready) {
  TenantPolicies policies;
  policies.named["a"].max_running_sequences = 1;
  Grant(policies);
  for (SequenceId id = 1; id <= 3; ++id) AddOf("a", id, 4, 100);
  PlanAndCommit();
  PlanAndCommit();
  EXPECT_EQ(scheduler().statistics().running_sequences, 1);
  policies.named["a"].max_running_sequences = 2;
  Grant(policies);
  PlanAndCommit();
  EXPECT_EQ(scheduler().statistics().running_sequences, 2);
}

// However much another tenant asks for.
TEST_F(TenantsTest, ANewcomerNeedNotWaitUntilSomebodyElseHasFinished) {
  options_.max_sequences_per_step = 4;
  kv_cache_.num_blocks = 400;
  for (SequenceId id = 1; id <= 100; ++id) AddOf("a", id, 4, 300);
  for (int i = 0; i < 5; ++i) PlanAndCommit();
  EXPECT_EQ(scheduler().statistics().running_sequences, 4);
  AddOf("b", 200, 4, 300);
  const Step step = PlanAndCommit();
  EXPECT_THAT(step.segments, SizeIs(4));
  EXPECT_EQ(step.segments.back().sequence, 200u);
  EXPECT_EQ(Usage(4).preemptions, 1) << "the last in line of the one that has more than its part";
  for (int i = 0; i < 20; ++i) {
    const Step next = PlanAndCommit();
    EXPECT_EQ(std::count_if(next.segments.begin(), next.segments.end(),
                            [](const Segment& segment) { return segment.sequence == 200; }),
              1);
  }
  EXPECT_EQ(Usage(200).preemptions, 0);
  // Up to its part, and no further.
  AddOf("b", 201, 4, 300);
  AddOf("b", 202, 4, 300);
  for (int i = 0; i < 5; ++i) PlanAndCommit();
  EXPECT_EQ(tenants().all().at("b").num_running, 2);
  EXPECT_EQ(Usage(1).preemptions + Usage(2).preemptions, 0);
}

TEST_F(TenantsTest, WhoLacksLittleOfItsPartWaitsForTheNextPlaceThatIsLeft) {
  options_.max_sequences_per_step = 16;  // eight each
  kv_cache_.num_blocks = 2000;
  for (SequenceId id = 1; id <= 100; ++id) AddOf("a", id, 4, 300);
  for (int i = 0; i < 5; ++i) PlanAndCommit();
  for (SequenceId id = 201; id <= 210; ++id) AddOf("b", id, 4, 300);
  for (int i = 0; i < 20; ++i) PlanAndCommit();
  const auto& all = tenants().all();
  EXPECT_EQ(all.at("b").num_running, 7);
  EXPECT_EQ(scheduler().statistics().preemptions, 7u);
  ASSERT_TRUE(scheduler().Finish(1, FinishReason::kCancelled).ok());
  for (int i = 0; i < 5; ++i) PlanAndCommit();
  EXPECT_EQ(all.at("b").num_running, 8);
  EXPECT_EQ(scheduler().statistics().preemptions, 7u);
}

TEST_F(TenantsTest, LimitsHowManyRunAndWait) {
  TenantPolicies policies;
  policies.others.max_running_sequences = 2;
  policies.named["small"].max_waiting_sequences = 1;
  Grant(policies);
  for (SequenceId id = 1; id <= 4; ++id) AddOf("a", id, 4, 9);
  AddOf("small", 5, 4, 9);
  EXPECT_THAT(scheduler().Add(SpecOf("small", 6, 4, 9)),
              StatusIs(kExhausted, "1 sequences of tenant \"small\" are waiting; its limit is 1"));
  EXPECT_THAT(Parts(PlanAndCommit()), ElementsAre(Part{5, 0, 4}, Part{1, 0, 4}, Part{2, 0, 4}));
  AddOf("small", 6, 4, 9);
  ASSERT_TRUE(scheduler().Finish(1, FinishReason::kCancelled).ok());
  Plan();
  EXPECT_EQ(tenants().all().at("a").num_running, 2);
}

TEST_F(TenantsTest, TheQueueIsBoundedByTokensToo) {
  options_.max_queued_tokens = 10;
  Add(Spec(1, 20, 9));  // alone it may be as long as it is
  EXPECT_THAT(
      scheduler().Add(Spec(2, 1, 9)),
      StatusIs(kExhausted, "the sequences that wait have 20 tokens, this one 1; the limit"));
  PlanAndCommit();
  Add(Spec(2, 6, 9));
  EXPECT_FALSE(scheduler().Add(Spec(3, 5, 9)).ok());
  Add(Spec(3, 4, 9));
}

TEST_F(TenantsTest, WhoHasLessThanItsPartOfAFullQueueFindsRoomInIt) {
  options_.max_queued_sequences = 4;
  for (SequenceId id = 1; id <= 4; ++id) AddOf("many", id, 4, 9);
  EXPECT_THAT(scheduler().Add(SpecOf("many", 5, 4, 9)),
              StatusIs(kExhausted, "4 sequences are waiting; the limit is 4"));
  AddOf("few", 5, 4, 9);
  AddOf("few", 6, 4, 9);
  EXPECT_THAT(scheduler().Add(SpecOf("few", 7, 4, 9)),
              StatusIs(kExhausted, "6 sequences are waiting; the limit is 4"))
      << "it has half of what may wait";
  AddOf("another", 7, 4, 9);
  AddOf("fourth", 8, 4, 9);
  EXPECT_THAT(scheduler().Add(SpecOf("fifth", 9, 4, 9)),
              StatusIs(kExhausted, "8 sequences are waiting; the limit is 8"));
}

TEST_F(TenantsTest, WhoHasLessThanItsPartOfTheTokensThatWaitFindsRoomForMore) {
  options_.max_queued_tokens = 10;
  AddOf("much", 1, 6, 9);
  AddOf("much", 2, 4, 9);
  EXPECT_FALSE(scheduler().Add(SpecOf("much", 3, 1, 9)).ok());
  AddOf("little", 3, 3, 9);
  AddOf("little", 4, 2, 9);
  EXPECT_THAT(scheduler().Add(SpecOf("little", 5, 1, 9)),
              StatusIs(kExhausted, "have 15 tokens, this one 1; the limit is 10"));
}

}  // namespace
}  // namespace sluice
