#include "kernels/cpu/attention_bundle.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>

namespace sluice {
namespace {

TEST(Bundles, HaveAllQueriesInSharesOfOneSize) {
  for (int64_t queries = 1; queries <= 200; ++queries) {
    const Bundles bundles(queries);
    EXPECT_LE(bundles.size, kBundle);
    const int64_t last = queries - (bundles.count - 1) * bundles.size;
    EXPECT_GE(last, 1) << queries;
    EXPECT_LE(last, bundles.size) << queries;
    EXPECT_EQ(bundles.count, (queries + kBundle - 1) / kBundle) << queries;
  }
}

TEST(Seen, IsCountedFromTheBeginningOfWhatItIsWithin) {
  const Seen seen{10, 40};
  const auto within = [&](int64_t first, int64_t count) {
    const Seen part = seen.Within(first, count);
    return std::pair(part.begin, part.end);
  };
  EXPECT_EQ(within(0, 16), std::pair(INT64_C(10), INT64_C(16)));
  EXPECT_EQ(within(16, 16), std::pair(INT64_C(0), INT64_C(16)));
  EXPECT_EQ(within(32, 16), std::pair(INT64_C(0), INT64_C(8)));
  EXPECT_TRUE(seen.Within(0, 10).empty());
  EXPECT_TRUE(seen.Within(40, 8).empty());
  EXPECT_TRUE(seen.Within(48, 8).empty());
}

}  // namespace
}  // namespace sluice
