// Candidates in order, shares of tenants, and what they are charged.
#include "orchestrator/scheduler/admission_queue.h"

#include <memory>
#include <string>
#include <vector>

#include "tests/orchestrator/scheduler/scheduler_parts.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;

class AdmissionQueueTest : public PartsTest {
 protected:
  AdmissionQueue& admission() { return parts().admission; }
  SequenceState& Enqueue(SequenceId id, const std::string& tenant, int priority = 0) {
    SequenceSpec spec = Spec(id, 4, 4);
    spec.tenant = tenant;
    spec.priority = priority;
    return parts().Enqueue(std::move(spec));
  }
  std::vector<SequenceId> Candidates() {
    std::vector<SequenceId> ids;
    admission().BeginRound();
    while (SequenceState* sequence = admission().Next()) {
      ids.push_back(sequence->spec.id);
      admission().Pass(*sequence);
    }
    return ids;
  }
};

TEST_F(AdmissionQueueTest, OrdersCandidatesByPriorityThenTenantThenArrival) {
  Enqueue(1, "a");
  Enqueue(2, "a");
  Enqueue(3, "b");
  Enqueue(4, "a", /*priority=*/1);
  admission().Charge(*parts().table.Find(1), /*num_positions=*/10, /*num_drafts=*/0);
  EXPECT_THAT(Candidates(), ElementsAre(4, 3, 1, 2));
  EXPECT_THAT(Candidates(), ElementsAre(4, 3, 1, 2));  // in every round
}

TEST_F(AdmissionQueueTest, PassesOverTenantsThatRunAsManyAsTheyMay) {
  TenantPolicies policies;
  policies.named["a"].max_running_sequences = 1;
  options_.tenant_policies = [granted = std::make_shared<const TenantPolicies>(policies)] {
    return granted;
  };
  admission().Refresh();
  SequenceState& first = Enqueue(1, "a");
  Enqueue(2, "a");
  Enqueue(3, "b");
  parts().table.Run(first);
  EXPECT_THAT(Candidates(), ElementsAre(3));
}

TEST_F(AdmissionQueueTest, ChargesDecodesTogetherAndAtTheirPrice) {
  SequenceState& sequence = Enqueue(1, "a");
  admission().Charge(sequence, /*num_positions=*/1, /*num_drafts=*/3);
  admission().Charge(sequence, /*num_positions=*/1, /*num_drafts=*/0);
  EXPECT_EQ(sequence.tenant->served, 0);
  EXPECT_THAT(parts().table.CheckIntegrity(),
              StatusIs(absl::StatusCode::kInternal, "7 tokens not charged"));
  admission().ChargeDecodes();
  EXPECT_EQ(sequence.tenant->served, 2 * Tenants::kDecodePrice + 3 * Tenants::kPrefillPrice);
  EXPECT_TRUE(parts().table.CheckIntegrity().ok());
}

TEST_F(AdmissionQueueTest, ServesOneRequestAlone) {
  SequenceState& first = Enqueue(1, "a");
  SequenceState& second = Enqueue(2, "a");
  admission().ServeOnly(second.spec.request);
  EXPECT_FALSE(admission().IsServed(first));
  EXPECT_TRUE(admission().IsServed(second));
  admission().ServeOnly(std::nullopt);
  EXPECT_TRUE(admission().IsServed(first));
  first.deferred = true;
  EXPECT_FALSE(admission().IsServed(first));
}

TEST_F(AdmissionQueueTest, LetsATenantDisplaceOthersWhereItLacksMuchOfItsShare) {
  for (SequenceId id = 1; id <= 4; ++id) parts().table.Run(Enqueue(id, "a"));
  SequenceState& waiting = Enqueue(5, "b");
  EXPECT_TRUE(admission().MayDisplace(waiting));
  EXPECT_TRUE(admission().HasExtraSlot(*parts().table.Find(4), 1));
  EXPECT_FALSE(admission().HasExtraSlot(*parts().table.Find(4), 2));
  EXPECT_FALSE(admission().MayDisplace(Enqueue(6, "b", /*priority=*/1)));  // preempts by priority
}

TEST_F(AdmissionQueueTest, WaitsForASiblingAheadThatComputesThePrompt) {
  SequenceState& first = Enqueue(1, "a");
  SequenceState& second = Enqueue(2, "a");
  second.spec.prompt_of = 1;
  second.sibling_serial = first.position.serial;
  EXPECT_TRUE(admission().WaitsForSibling(second));
  first.num_computed = 4;
  EXPECT_FALSE(admission().WaitsForSibling(second));
  first.num_computed = 0;
  first.paused = true;
  EXPECT_FALSE(admission().WaitsForSibling(second));
}

}  // namespace
}  // namespace sluice
