// Who stands trial, and who is convicted.
#include "orchestrator/engine/suspects.h"

#include <gtest/gtest.h>

#include <optional>

namespace sluice {
namespace {

TEST(Suspects, AreNotTriedForOneLoss) {
  Suspects suspects(3);
  EXPECT_EQ(suspects.OnLoss({1, 2, 3}), std::nullopt);
  EXPECT_EQ(suspects.isolated_request(), std::nullopt);
  EXPECT_EQ(suspects.num_losses(2), 1);
  EXPECT_EQ(suspects.num_losses(9), 0);
}

TEST(Suspects, StandTrialOneAfterTheOtherAfterASecondLoss) {
  Suspects suspects(3);
  EXPECT_EQ(suspects.OnLoss({1, 2, 3}), std::nullopt);
  suspects.Clear(2);  // it had a token in between
  EXPECT_EQ(suspects.OnLoss({1, 2, 3}), std::nullopt);
  EXPECT_EQ(suspects.isolated_request(), 1u);
  suspects.Clear(1);
  EXPECT_EQ(suspects.isolated_request(), 3u);
  suspects.Clear(3);
  EXPECT_EQ(suspects.isolated_request(), std::nullopt);
}

TEST(Suspects, AreConvictedByLossesAtTheEndOfWhichTheyWereAlone) {
  Suspects suspects(2);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(suspects.OnLoss({1, 2}), std::nullopt);
  EXPECT_EQ(suspects.OnLoss({2}), 2u);
  EXPECT_EQ(suspects.num_losses(2), 6);
}

TEST(Suspects, AreNotConvictedByFewLosses) {
  Suspects suspects(2);
  EXPECT_EQ(suspects.OnLoss({7}), std::nullopt);
  EXPECT_EQ(suspects.OnLoss({7}), std::nullopt);
  EXPECT_EQ(suspects.isolated_request(), 7u);
  EXPECT_EQ(suspects.OnLoss({7}), 7u);
}

TEST(Suspects, AreTriedFirstWhereMostLossesSpeakAgainstThem) {
  Suspects suspects(9);
  suspects.OnLoss({4, 5});
  suspects.OnLoss({4, 5});
  suspects.OnLoss({5});
  EXPECT_EQ(suspects.isolated_request(), 5u);
}

TEST(Suspects, RunWithTheOthersOnceMoreWhereTheyCannotRunAlone) {
  Suspects suspects(9);
  suspects.OnLoss({4});
  suspects.OnLoss({4});
  suspects.Release(4);
  EXPECT_EQ(suspects.isolated_request(), std::nullopt);
  suspects.OnLoss({4, 5});
  EXPECT_EQ(suspects.isolated_request(), 4u);
}

TEST(Suspects, AreForgottenOnceTheyAreGone) {
  Suspects suspects(9);
  suspects.OnLoss({4, 5});
  suspects.OnLoss({4, 5});
  suspects.KeepOnly([](RequestId request) { return request == 5; });
  EXPECT_EQ(suspects.num_losses(4), 0);
  EXPECT_EQ(suspects.isolated_request(), 5u);
}

}  // namespace
}  // namespace sluice
