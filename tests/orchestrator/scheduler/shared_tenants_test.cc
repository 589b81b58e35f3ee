// Tenants that several schedulers share.
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "tests/orchestrator/scheduler/testing.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;

class SharedTenantsTest : public ::testing::Test {
 protected:
  SharedTenantsTest() {
    options_.tenants = &tenants_;
    for (std::optional<Scheduler>& scheduler : schedulers_) {
      scheduler.emplace(options_, KvCacheOptions{.num_blocks = 100, .block_size = 4});
    }
  }
  ~SharedTenantsTest() override { CheckIntegrity(); }

  void Add(int scheduler, const std::string& tenant, SequenceId id, int num_prompt = 4) {
    SequenceSpec spec = Spec(id, num_prompt, 8);
    spec.tenant = tenant;
    const absl::Status status = schedulers_[scheduler]->Add(std::move(spec));
    ASSERT_TRUE(status.ok()) << status;
    CheckIntegrity();
  }
  Step Plan(int scheduler) {
    std::optional<Step> step = schedulers_[scheduler]->Plan();
    CheckIntegrity();
    EXPECT_TRUE(step.has_value());
    return step.value_or(Step{});
  }
  void CheckIntegrity() {
    for (const std::optional<Scheduler>& scheduler : schedulers_) {
      if (!scheduler.has_value()) continue;
      const absl::Status status = scheduler->CheckIntegrity();
      EXPECT_TRUE(status.ok()) << status;
    }
  }

  std::shared_ptr<const TenantPolicies> policies_;
  Tenants tenants_{[this] { return policies_; }};
  SchedulerOptions options_ = {.max_tokens_per_step = 4, .max_positions = 1000};
  std::optional<Scheduler> schedulers_[2];
};

TEST_F(SharedTenantsTest, CountWhatAnySchedulerServes) {
  Add(0, "a", 1);
  Add(1, "a", 2);
  Plan(0);
  EXPECT_EQ(tenants_.Find("a")->served, 4);
  Plan(1);
  EXPECT_EQ(tenants_.Find("a")->served, 8);
}

TEST_F(SharedTenantsTest, ReorderAQueueByWhatAnotherSchedulerCharged) {
  Add(1, "a", 1);
  Add(1, "b", 2);
  Add(0, "b", 3, /*num_prompt=*/40);
  Plan(0);  // charges "b", which would be first by order of appearance
  EXPECT_THAT(Parts(Plan(1)), ElementsAre(Part{1, 0, 4}));
}

TEST_F(SharedTenantsTest, LimitRunningAndWaitingSequencesOverAllSchedulers) {
  TenantPolicies policies;
  policies.others = {.max_running_sequences = 1, .max_waiting_sequences = 1};
  policies_ = std::make_shared<const TenantPolicies>(policies);
  Add(0, "a", 1);
  SequenceSpec second = Spec(2, 4, 8);
  second.tenant = "a";
  EXPECT_THAT(schedulers_[1]->Add(second),
              StatusIs(absl::StatusCode::kResourceExhausted, "its limit is 1"));
  Plan(0);
  Add(1, "a", 2);
  EXPECT_FALSE(schedulers_[1]->Plan().has_value());
  EXPECT_TRUE(schedulers_[0]->Finish(1, FinishReason::kCancelled).ok());
  EXPECT_THAT(Parts(Plan(1)), ElementsAre(Part{2, 0, 4}));
}

TEST_F(SharedTenantsTest, ForgetTheSequencesOfASchedulerThatIsGone) {
  Add(0, "a", 1);
  Add(1, "a", 2);
  Plan(0);
  EXPECT_EQ(tenants_.Find("a")->num_running, 1);
  schedulers_[0].reset();
  EXPECT_EQ(tenants_.Find("a")->num_running, 0);
  EXPECT_EQ(tenants_.Find("a")->num_alive, 1);
  schedulers_[1].reset();
  EXPECT_EQ(tenants_.num_active(), 0);
  EXPECT_EQ(tenants_.Find("a")->served, 4);  // remembered
  EXPECT_TRUE(tenants_.CheckIntegrity().ok());
}

}  // namespace
}  // namespace sluice
