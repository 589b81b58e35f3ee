#include "services/gateway/budgets.h"

#include <gtest/gtest.h>

namespace sluice::gateway {
namespace {

constexpr uint64_t kMib = 1 << 20;

TEST(BudgetsTest, LeaveMemoryToConnectionsAndTheProgram) {
  for (const uint64_t memory : {64 * kMib, 256 * kMib, 4096 * kMib}) {
    const Budgets budgets = BudgetsOf(memory);
    EXPECT_LE(budgets.body_bytes + budgets.waiting_bytes + budgets.value_bytes, memory / 8 * 5);
  }
}

TEST(BudgetsTest, FitConnectionsAndBodiesToWhatThereIs) {
  const http::Limits wanted;
  const http::Limits roomy = FitLimits(wanted, 4096 * kMib, 1 << 20, false);
  EXPECT_EQ(roomy.max_connections, wanted.max_connections);
  EXPECT_EQ(roomy.max_body_bytes, wanted.max_body_bytes);
  const http::Limits of_chart = FitLimits(wanted, 256 * kMib, 1 << 20, true);
  EXPECT_EQ(of_chart.max_body_bytes, 16 * kMib);
  EXPECT_EQ(of_chart.max_connections, 1024);
  EXPECT_EQ(FitLimits(wanted, 256 * kMib, 1024, false).max_connections, 960);
  EXPECT_EQ(FitLimits(wanted, 256 * kMib, 20, false).max_connections, 10);
  const http::Limits small = FitLimits(wanted, 16 * kMib, 1 << 20, true);
  EXPECT_EQ(small.max_body_bytes, kMib);
  EXPECT_EQ(small.max_connections, 64);
  EXPECT_GE(FitLimits(wanted, 0, 0, true).max_connections, 1);
}

}  // namespace
}  // namespace sluice::gateway
