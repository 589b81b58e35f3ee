// One sequence becomes two.
#include "tests/orchestrator/scheduler/testing.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

class ForkTest : public SchedulerTest {
 protected:
  void Fork(const ForkSpec& fork) {
    const absl::Status status = scheduler().Fork(fork);
    ASSERT_TRUE(status.ok()) << status;
    CheckIntegrity();
  }
};

// As a beam is: at the newest position, each with a token of its own.
TEST_F(ForkTest, BothGoOnFromWhereTheOneWas) {
  Add(Spec(1, 6, 9));
  PlanAndCommit(7);
  Fork({.from = 1, .to = 2, .num_tokens = 6, .continuation = {8}});
  const Step step = Plan();
  EXPECT_THAT(Parts(step), ElementsAre(Part{1, 6, 1}, Part{2, 6, 1}));
  EXPECT_THAT(step.segments[0].tokens, ElementsAre(7));
  EXPECT_THAT(step.segments[1].tokens, ElementsAre(8));
  EXPECT_EQ(Table(1)[0], Table(2)[0]);
  // The first to write copies, the other goes on in the block they had in common.
  EXPECT_THAT(step.copies,
              ElementsAre(BlockCopy{.source = Table(2)[1], .destination = Table(1)[1]}));
  Commit(step, 9);
  EXPECT_THAT(Plan().copies, IsEmpty());
  EXPECT_EQ(Usage(2).generated_tokens, 2);
  EXPECT_EQ(Usage(2).shared_positions, 6);
}

TEST_F(ForkTest, AForkGoesBackToAnyPosition) {
  Add(Spec(1, 5, 9));
  for (const TokenId token : {11, 12, 13, 14}) PlanAndCommit(token);
  Fork({.from = 1, .to = 2, .num_tokens = 7, .continuation = {}});
  const Step step = Plan();
  EXPECT_THAT(Parts(step), ElementsAre(Part{1, 8, 1}, Part{2, 6, 1}));
  EXPECT_THAT(step.segments[1].tokens, ElementsAre(12));
  Commit(step, 20);
  EXPECT_EQ(Usage(2).generated_tokens, 3);
}

TEST_F(ForkTest, WhatIsNotComputedYetIsComputedByBoth) {
  options_.max_tokens_per_step = 4;
  Add(Spec(1, 10, 9));
  PlanAndCommit();
  Fork({.from = 1, .to = 2, .num_tokens = 10, .continuation = {}});
  options_.max_tokens_per_step = 100;
  EXPECT_THAT(Parts(PlanAndCommit()), ElementsAre(Part{1, 4, 4}));
  EXPECT_THAT(Parts(PlanAndCommit()), ElementsAre(Part{1, 8, 2}, Part{2, 4, 2}));
}

TEST_F(ForkTest, AForkOfAWaitingSequenceWaits) {
  Add(Spec(1, 6, 9));
  Fork({.from = 1, .to = 2, .num_tokens = 6, .continuation = {7}});
  EXPECT_EQ(scheduler().statistics().waiting_sequences, 2);
  EXPECT_THAT(Parts(Plan()), ElementsAre(Part{1, 0, 6}, Part{2, 0, 7}));
}

TEST_F(ForkTest, AForkWithoutAPlaceWaitsAheadOfLaterOnes) {
  options_.max_sequences_per_step = 1;
  Add(Spec(1, 6, 2));
  PlanAndCommit();
  Add(Spec(3, 3, 9));
  Fork({.from = 1, .to = 2, .num_tokens = 6, .continuation = {7}});
  EXPECT_THAT(Parts(PlanAndCommit()), ElementsAre(Part{1, 6, 1}));  // and ends
  EXPECT_THAT(Parts(Plan()), ElementsAre(Part{2, 0, 7}));
}

// Both need a block, and there is none: the one behind gives up what they share.
TEST_F(ForkTest, TheFirstInLineTakesTheBlockForItself) {
  kv_cache_.num_blocks = 2;
  Add(Spec(1, 6, 3));
  PlanAndCommit();
  Fork({.from = 1, .to = 2, .num_tokens = 6, .continuation = {7}});
  const Step step = PlanAndCommit();
  EXPECT_THAT(Parts(step), ElementsAre(Part{1, 6, 1}));
  EXPECT_THAT(step.copies, IsEmpty());
  EXPECT_EQ(Usage(2).preemptions, 1);
  EXPECT_THAT(PlanAndCommit().segments, SizeIs(1));  // the first ends
  EXPECT_THAT(Parts(Plan()), ElementsAre(Part{2, 0, 7}));
}

TEST_F(ForkTest, RefusesWhatCannotGoOn) {
  SequenceSpec spec = Spec(1, 6, 3);
  spec.stop_tokens = {99};
  Add(spec);
  PlanAndCommit();
  EXPECT_EQ(scheduler().Fork({.from = 5, .to = 2, .num_tokens = 6, .continuation = {}}).code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(scheduler().Fork({.from = 1, .to = 1, .num_tokens = 6, .continuation = {}}).code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(scheduler().Fork({.from = 1, .to = 2, .num_tokens = 5, .continuation = {}}),
              StatusIs(kInvalid, "num_tokens is 5; accepted for sequence 1: 6 to 7"));
  EXPECT_THAT(scheduler().Fork({.from = 1, .to = 2, .num_tokens = 8, .continuation = {}}),
              StatusIs(kInvalid, "num_tokens is 8"));
  EXPECT_THAT(scheduler().Fork({.from = 1, .to = 2, .num_tokens = 6, .continuation = {99}}),
              StatusIs(kInvalid, "stop"));
  EXPECT_THAT(scheduler().Fork({.from = 1, .to = 2, .num_tokens = 7, .continuation = {1, 2}}),
              StatusIs(kInvalid, "length"));
  CheckIntegrity();
  EXPECT_EQ(scheduler().statistics().running_sequences, 1);
}

}  // namespace
}  // namespace sluice
