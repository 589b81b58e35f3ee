// What calls that are answered at once may take together: places, and work for their answers.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "orchestrator/api/call_budget.h"
#include "orchestrator/api/status_snapshot.h"

namespace sluice {
namespace {

TEST(CallBudgetTest, AHostHasItsShareAndOthersHaveTheirs) {
  CallBudget budget(2);
  const std::shared_ptr<void> first = budget.Take("ipv4:10.0.0.7:1000");
  std::shared_ptr<void> second = budget.Take("ipv4:10.0.0.7:1001");
  EXPECT_NE(first, nullptr);
  EXPECT_NE(second, nullptr);
  EXPECT_EQ(budget.Take("ipv4:10.0.0.7:1002"), nullptr);
  EXPECT_NE(budget.Take("ipv4:10.0.0.8:1000"), nullptr);
  second = nullptr;
  EXPECT_NE(budget.Take("ipv4:10.0.0.7:1002"), nullptr);
}

TEST(CallBudgetTest, DoesNotCountTheOwnersProcesses) {
  CallBudget budget(1);
  std::vector<std::shared_ptr<void>> places;
  for (const char* peer : {"unix:", "unix:/run/s", "inproc:it", ""}) {
    for (int i = 0; i < 3; ++i) places.push_back(budget.Take(peer));
  }
  for (const auto& place : places) EXPECT_NE(place, nullptr);
}

TEST(CallBudgetTest, APlaceMayOutliveTheBudget) {
  auto budget = std::make_unique<CallBudget>(1);
  std::shared_ptr<void> place = budget->Take("ipv6:[2001:db8::1]:5");
  budget = nullptr;
  place = nullptr;
}

TEST(CallBudgetTest, LeavesRoomForEveryHonestClient) {
  EXPECT_EQ(CallBudget::MostCalls({.streams = 100}), 256);
  EXPECT_EQ(CallBudget::MostCalls({.streams = 16384}), 2048);
}

TEST(StatusSnapshotTest, IsMadeAtMostOnceInItsAge) {
  int made = 0;
  StatusSnapshot snapshot([&made] {
    ++made;
    const grpc::Slice slice(std::to_string(made));
    return grpc::ByteBuffer(&slice, 1);
  });
  const auto at = [](absl::Duration time) { return SteadyTime::FromStart(time); };
  for (int i = 0; i < 1000; ++i) snapshot.Get(at(absl::Seconds(1) + absl::Microseconds(i)));
  EXPECT_EQ(made, 1);
  const grpc::ByteBuffer next = snapshot.Get(at(absl::Seconds(1) + StatusSnapshot::kAge));
  EXPECT_EQ(made, 2);
  EXPECT_EQ(next.Length(), 1u);
  EXPECT_EQ(snapshot.Get(at(absl::Seconds(2))).Length(), 1u);
  EXPECT_EQ(made, 3);
}

}  // namespace
}  // namespace sluice
