#include "kernels/cpu/shrinking_runs.h"

#include "gtest/gtest.h"

namespace sluice {
namespace {

TEST(ShrinkingRuns, CoverEveryUnitOnceInOrder) {
  for (const int threads : {1, 2, 3, 4, 7, 16, 128}) {
    for (const int64_t units : {0, 1, 2, 3, 5, 15, 16, 30, 50, 127, 128, 1000, 48001}) {
      const ShrinkingRuns runs(units, threads);
      EXPECT_EQ(runs.Begin(0), 0);
      EXPECT_EQ(runs.Begin(runs.count()), units) << units << " units, " << threads << " threads";
      for (int64_t i = 0; i < runs.count(); ++i) {
        EXPECT_LT(runs.Begin(i), runs.Begin(i + 1)) << "run " << i << " of " << units << " units";
      }
    }
  }
}

TEST(ShrinkingRuns, HalfOfTheUnitsGoFirstAndSingleOnesLast) {
  const ShrinkingRuns runs(160, 2);
  EXPECT_EQ(runs.Begin(1), 40);
  EXPECT_EQ(runs.Begin(2), 80);
  EXPECT_EQ(runs.Begin(3), 100);
  EXPECT_EQ(runs.Begin(runs.count()) - runs.Begin(runs.count() - 1), 1);
  EXPECT_LT(runs.count(), 20);
}

TEST(ShrinkingRuns, OneThreadTakesAllAtOnce) {
  EXPECT_EQ(ShrinkingRuns(160, 1).count(), 1);
  EXPECT_EQ(ShrinkingRuns(0, 1).count(), 0);
}

}  // namespace
}  // namespace sluice
