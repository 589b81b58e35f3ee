// Who may open a stage, in virtual time.
#include "services/stage/stage_tenure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice {
namespace {

using ::testing::HasSubstr;

SteadyTime At(double seconds) { return SteadyTime::FromStart(absl::Seconds(seconds)); }

TEST(StageTenureTest, ANewStageIsAnybodys) {
  const StageTenure tenure;
  EXPECT_TRUE(tenure.Check("a", At(0)).ok());
  EXPECT_TRUE(tenure.Check("", At(0)).ok());
}

TEST(StageTenureTest, BelongsToWhoseStreamIsOpenHoweverIdleItIs) {
  StageTenure tenure;
  tenure.Begin("a", "");
  const absl::Status refused = tenure.Check("b", At(10'000));
  EXPECT_EQ(refused.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("orchestrator a"));
  EXPECT_TRUE(tenure.Check("a", At(10'000)).ok());  // wires it anew
}

TEST(StageTenureTest, WaitsAMomentForOneThatHasHadStepsComputed) {
  StageTenure tenure;
  const uint64_t stream = tenure.Begin("a", "");
  tenure.Stepped();
  tenure.End(stream, At(10));
  EXPECT_FALSE(tenure.Check("b", At(10.9)).ok());
  EXPECT_TRUE(tenure.Check("a", At(10.9)).ok());
  EXPECT_TRUE(tenure.Check("b", At(11)).ok());
}

TEST(StageTenureTest, DoesNotWaitForOneThatHasDoneNothing) {
  StageTenure tenure;
  const uint64_t stream = tenure.Begin("a", "");
  tenure.End(stream, At(10));
  EXPECT_TRUE(tenure.Check("b", At(10)).ok());
}

TEST(StageTenureTest, TheEndOfAReplacedStreamChangesNothing) {
  StageTenure tenure;
  const uint64_t first = tenure.Begin("a", "");
  const uint64_t second = tenure.Begin("a", "");
  tenure.End(first, At(10));
  EXPECT_FALSE(tenure.Check("b", At(20)).ok());
  tenure.End(second, At(20));
  EXPECT_TRUE(tenure.Check("b", At(20)).ok());
}

TEST(StageTenureTest, GoesOnUntilAnotherOrchestratorOpensTheStage) {
  StageTenure tenure(100);
  tenure.Begin("a", "first");
  const uint64_t number = tenure.number();
  EXPECT_NE(number, 100u);
  tenure.Begin("a", "first");
  EXPECT_EQ(tenure.number(), number);
  tenure.Begin("a", "second");  // another process of the same name
  const uint64_t of_another = tenure.number();
  EXPECT_NE(of_another, number);
  tenure.Begin("a", "first");  // again, but its keys and values are gone
  EXPECT_NE(tenure.number(), number);
  EXPECT_NE(tenure.number(), of_another);
}

TEST(StageTenureTest, AnOpenWithoutANonceBeginsAnother) {
  StageTenure tenure;
  tenure.Begin("a", "");
  const uint64_t number = tenure.number();
  tenure.Begin("a", "");
  EXPECT_NE(tenure.number(), number);
}

}  // namespace
}  // namespace sluice
