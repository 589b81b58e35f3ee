#include "services/metrics/device_metrics.h"

#include <gtest/gtest.h>
#include <prometheus/metric_family.h>

namespace sluice {
namespace {

TEST(DeviceMetrics, AreOfTheMomentOfTheScrape) {
  DeviceMemory use{.total_bytes = 100, .free_bytes = 60};
  const DeviceMetrics metrics("cuda/mma v1", [&] { return std::optional(use); });
  EXPECT_EQ(metrics.Collect().at(1).metric.at(0).gauge.value, 60);
  use.free_bytes = 10;
  const auto families = metrics.Collect();
  ASSERT_EQ(families.size(), 2u);
  EXPECT_EQ(families[0].name, "sluice_device_memory_bytes");
  EXPECT_EQ(families[0].metric.at(0).gauge.value, 100);
  EXPECT_EQ(families[0].metric.at(0).label.at(0).value, "cuda/mma v1");
  EXPECT_EQ(families[1].metric.at(0).gauge.value, 10);
}

TEST(DeviceMetrics, AreNoneOfTheHost) {
  const DeviceMetrics metrics("cpu", [] { return std::optional<DeviceMemory>(); });
  EXPECT_TRUE(metrics.Collect().empty());
}

}  // namespace
}  // namespace sluice
