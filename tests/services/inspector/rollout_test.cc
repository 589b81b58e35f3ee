#include "services/inspector/rollout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace sluice {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::Pointwise;

TEST(RolloutTest, WithoutLayersEveryPositionIsItself) {
  EXPECT_THAT(Rollout(2).flow(), ElementsAre(1, 0, 0, 1));
}

TEST(RolloutTest, HalfOfALayerIsTheResidualConnection) {
  Rollout rollout(2);
  rollout.Add(std::vector<double>{1, 0, 0.5, 0.5});
  EXPECT_THAT(rollout.flow(), ElementsAre(1, 0, 0.25, 0.75));
  // A = [[1, 0], [1/4, 3/4]] once more, leftmost.
  rollout.Add(std::vector<double>{1, 0, 0.5, 0.5});
  EXPECT_THAT(rollout.flow(), ElementsAre(1, 0, 0.25 + 0.75 * 0.25, 0.75 * 0.75));
}

// A row of a head with a sink adds up to less than 1.
TEST(RolloutTest, RowsAddUpToOneBesideSinks) {
  Rollout rollout(2);
  rollout.Add(std::vector<double>{0.2, 0, 0, 0});
  const std::vector<double> expected = {1, 0, 0, 1};
  EXPECT_THAT(rollout.flow(), Pointwise(DoubleNear(1e-12), expected));
  rollout.Add(std::vector<double>{0.2, 0, 0.5, 0});
  EXPECT_NEAR(rollout.flow()[2], 0.5 * 0.5 / 0.75, 1e-12);
  EXPECT_NEAR(rollout.flow()[2] + rollout.flow()[3], 1, 1e-12);
}

}  // namespace
}  // namespace sluice
