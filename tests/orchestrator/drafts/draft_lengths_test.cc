#include "orchestrator/drafts/draft_lengths.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace sluice {
namespace {

using ::testing::ElementsAre;

double Flat(int32_t) { return 1; }
double ByRows(int32_t rows) { return rows; }

TEST(ChooseLengths, ComputesAllThatIsLikelyWhereRowsAreFree) {
  const DraftLengths lengths = ChooseLengths(1, {{0.8, 0.64, 0.5}}, 100, 0.02, Flat);
  EXPECT_THAT(lengths.of, ElementsAre(3));
  EXPECT_DOUBLE_EQ(lengths.rate, 1 + 0.8 + 0.64 + 0.5);
}

TEST(ChooseLengths, ComputesNothingWhereEveryRowHasItsPrice) {
  const DraftLengths lengths = ChooseLengths(2, {{0.9, 0.8}, {0.9}}, 100, 0.02, ByRows);
  EXPECT_THAT(lengths.of, ElementsAre(0, 0));
  EXPECT_DOUBLE_EQ(lengths.rate, 1);
}

TEST(ChooseLengths, GivesWhatThereIsToTheLikeliest) {
  // Free up to 6 rows.
  const auto cost = [](int32_t rows) { return rows <= 6 ? 1.0 : 2.0; };
  EXPECT_THAT(ChooseLengths(3, {{0.9, 0.8, 0.3}, {0.5, 0.2}, {0.7}}, 100, 0.02, cost).of,
              ElementsAre(2, 0, 1));
  EXPECT_THAT(ChooseLengths(3, {{0.9, 0.8, 0.3}, {0.5, 0.2}, {0.7}}, 1, 0.02, cost).of,
              ElementsAre(1, 0, 0));
}

TEST(ChooseLengths, GoesOverAStepInThePriceWhereMoreLiesBehindIt) {
  const auto cost = [](int32_t rows) { return rows == 1 ? 1.0 : 1.5; };
  EXPECT_THAT(ChooseLengths(1, {{0.4}}, 100, 0.02, cost).of, ElementsAre(0));
  EXPECT_THAT(ChooseLengths(1, {{0.4, 0.4, 0.4}}, 100, 0.02, cost).of, ElementsAre(3));
}

TEST(ChooseLengths, LeavesWhatWinsLessThanTheMargin) {
  EXPECT_THAT(ChooseLengths(100, {{1.0}}, 100, 0.02, Flat).of, ElementsAre(0));
  EXPECT_THAT(ChooseLengths(100, {{1.0}}, 100, 0.001, Flat).of, ElementsAre(1));
}

}  // namespace
}  // namespace sluice
