#include "services/gateway/http/memory_budget.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace sluice::http {
namespace {

TEST(MemoryBudgetTest, LeavesOthersAsMuchAsATenantTakes) {
  MemoryBudget budget(800);
  auto first = budget.Take("a", 400);
  ASSERT_TRUE(first.has_value());
  EXPECT_FALSE(budget.Take("a", 1).has_value());
  EXPECT_FALSE(budget.Take("b", 201).has_value());
  auto second = budget.Take("b", 200);
  ASSERT_TRUE(second.has_value());
  EXPECT_TRUE(budget.Take("c", 100).has_value());
  EXPECT_EQ(budget.used(), 600);
}

TEST(MemoryBudgetTest, ManyRequestsOfATenantLeaveRoomForAnother) {
  MemoryBudget budget(1000);
  std::vector<MemoryBudget::Charge> held;
  while (auto charge = budget.Take("greedy", 10)) held.push_back(*std::move(charge));
  EXPECT_EQ(held.size(), 50);
  for (int tenant = 0; tenant < 4; ++tenant) {
    auto charge = budget.Take(absl::StrCat(tenant), 30);
    ASSERT_TRUE(charge.has_value()) << tenant;
    held.push_back(*std::move(charge));
  }
}

TEST(MemoryBudgetTest, ChargesGrowShrinkAndEnd) {
  MemoryBudget budget(100);
  {
    auto charge = budget.Take("a", 10);
    ASSERT_TRUE(charge.has_value());
    EXPECT_TRUE(charge->Resize(50));
    EXPECT_FALSE(charge->Resize(51));
    EXPECT_EQ(charge->bytes(), 50);
    EXPECT_TRUE(charge->Resize(5));
    EXPECT_EQ(budget.used(), 5);
    MemoryBudget::Charge moved = *std::move(charge);
    EXPECT_EQ(moved.bytes(), 5);
    EXPECT_EQ(budget.used(), 5);
  }
  EXPECT_EQ(budget.used(), 0);
}

TEST(MemoryBudgetTest, RefusesWhatIsLargerThanAllNumbers) {
  MemoryBudget budget(100);
  EXPECT_FALSE(budget.Take("a", ~uint64_t{0}).has_value());
  auto charge = budget.Take("a", 20);
  EXPECT_FALSE(charge->Resize(~uint64_t{0}));
  EXPECT_EQ(budget.used(), 20);
}

}  // namespace
}  // namespace sluice::http
