// Sequences that begin with what others have computed, found by its tokens.
#include "tests/orchestrator/scheduler/testing.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class PrefixTest : public SchedulerTest {
 protected:
  static SequenceSpec Sharing(SequenceId id, int num_prompt, int max_new_tokens) {
    SequenceSpec spec = Spec(id, num_prompt, max_new_tokens);
    spec.use_prefix_cache = true;
    return spec;
  }

  // Runs a sequence to its end.
  void RunToEnd(SequenceSpec spec) {
    const SequenceId id = spec.id;
    Add(std::move(spec));
    while (scheduler().Report(id).ok()) PlanAndCommit();
  }
};

TEST_F(PrefixTest, BeginsAfterTheBlocksThatAreKnown) {
  RunToEnd(Sharing(1, 10, 1));
  Add(Sharing(2, 10, 5));
  EXPECT_THAT(Parts(Plan()), ElementsAre(Part{2, 8, 2}));
  EXPECT_EQ(Usage(2).cached_positions, 8);
  EXPECT_EQ(Usage(2).cached_prompt_tokens, 8);
  EXPECT_EQ(Usage(2).shared_positions, 0);
}

TEST_F(PrefixTest, ComputesTheLastPositionOfAPromptThatIsKnownWhole) {
  RunToEnd(Sharing(1, 8, 1));
  Add(Sharing(2, 8, 5));
  const Step step = Plan();
  EXPECT_THAT(Parts(step), ElementsAre(Part{2, 7, 1}));
  EXPECT_THAT(step.copies, SizeIs(1));
  EXPECT_EQ(step.copies[0].destination, Table(2)[1]);
}

TEST_F(PrefixTest, CopiesTheLastBlockOfALivingSequence) {
  Add(Sharing(1, 7, 5));
  PlanAndCommit();
  Add(Sharing(2, 7, 5));
  const Step step = Plan();
  EXPECT_THAT(Parts(step), ElementsAre(Part{1, 7, 1}, Part{2, 6, 1}));
  EXPECT_THAT(step.copies,
              ElementsAre(BlockCopy{.source = Table(1)[1], .destination = Table(2)[1]}));
}

TEST_F(PrefixTest, GeneratedTokensAreKnownAsWell) {
  RunToEnd(Sharing(1, 6, 7));  // 12 positions are computed
  SequenceSpec next = Sharing(2, 6, 5);
  next.prompt.insert(next.prompt.end(), {1, 1, 1, 1, 1, 1, 1, 50, 51});
  Add(next);
  EXPECT_THAT(Parts(Plan()), ElementsAre(Part{2, 12, 3}));
}

TEST_F(PrefixTest, NobodyWhoDeclinesFindsOrLeavesAnything) {
  RunToEnd(Spec(1, 8, 1));
  RunToEnd(Sharing(2, 8, 1));
  EXPECT_EQ(scheduler().statistics().kv_cache.hit_positions, 0u);
  RunToEnd(Spec(3, 8, 1));
  EXPECT_EQ(scheduler().statistics().kv_cache.hit_positions, 0u);
}

TEST_F(PrefixTest, SaltsKeepSequencesApart) {
  RunToEnd(Sharing(1, 8, 1));
  for (const SequenceId id : {2, 3}) {
    SequenceSpec salted = Sharing(id, 8, 5);
    salted.cache_salt = "a";
    Add(salted);
    EXPECT_THAT(PlanAndCommit().segments.back().first_position, id == 2 ? 0 : 7);
  }
}

TEST_F(PrefixTest, LengthsOfAnotherKindFindNothing) {
  options_.rope_length_class = [](int32_t length) { return length <= 8 ? 8 : 1000; };
  RunToEnd(Sharing(1, 8, 1));
  Add(Sharing(2, 9, 5));
  EXPECT_THAT(Parts(PlanAndCommit()), ElementsAre(Part{2, 0, 9}));
  ASSERT_TRUE(scheduler().Finish(2, FinishReason::kCancelled).ok());
  Add(Sharing(3, 12, 5));
  EXPECT_THAT(Parts(Plan()), ElementsAre(Part{3, 8, 4}));
}

TEST_F(PrefixTest, APromptThatIsScoredIsComputed) {
  RunToEnd(Sharing(1, 8, 1));
  SequenceSpec scored = Sharing(2, 8, 5);
  scored.score_prompt = true;
  Add(scored);
  EXPECT_THAT(Parts(Plan()), ElementsAre(Part{2, 0, 8}));
}

TEST_F(PrefixTest, APreemptedSequenceFindsWhatNobodyNeededMeanwhile) {
  kv_cache_.num_blocks = 4;
  Add(Sharing(1, 7, 9));
  SequenceSpec other = Sharing(2, 7, 9);
  for (TokenId& token : other.prompt) token += 100;
  Add(other);
  PlanAndCommit();  // two blocks each
  PlanAndCommit();
  const Step step = PlanAndCommit();  // the first needs a third
  EXPECT_THAT(Parts(step), ElementsAre(Part{1, 8, 1}));
  EXPECT_EQ(Usage(2).preemptions, 1);
  ASSERT_TRUE(scheduler().Finish(1, FinishReason::kCancelled).ok());
  EXPECT_THAT(Parts(PlanAndCommit()), ElementsAre(Part{2, 4, 5}));
  EXPECT_EQ(Usage(2).cached_positions, 4);
  EXPECT_EQ(Usage(2).cached_prompt_tokens, 0);
  EXPECT_EQ(Usage(2).recomputed.after_preemption, 4);
}

TEST_F(PrefixTest, CountsWhatIsComputedAgainAndWhy) {
  Add(Spec(1, 7, 9));
  PlanAndCommit();
  scheduler().Reset();
  PlanAndCommit();
  EXPECT_EQ(Usage(1).recomputed.after_loss, 7);
  EXPECT_EQ(Usage(1).recomputed.after_preemption, 0);
  EXPECT_EQ(Usage(1).computed_positions, 7 + 8);
}

TEST_F(PrefixTest, AResetForgetsWhatWasKnown) {
  RunToEnd(Sharing(1, 8, 1));
  scheduler().Reset();
  Add(Sharing(2, 8, 5));
  EXPECT_THAT(Parts(Plan()), ElementsAre(Part{2, 0, 8}));
}

TEST_F(PrefixTest, UnusedBlocksGiveWay) {
  kv_cache_.num_blocks = 3;
  RunToEnd(Sharing(1, 8, 1));
  SequenceSpec other = Sharing(2, 10, 1);
  for (TokenId& token : other.prompt) token += 100;
  Add(other);
  const Step step = PlanAndCommit();
  EXPECT_THAT(Parts(step), ElementsAre(Part{2, 0, 10}));
  EXPECT_EQ(scheduler().statistics().kv_cache.evicted_blocks, 2u);
  Add(Sharing(3, 8, 5));
  EXPECT_THAT(Parts(Plan()), ElementsAre(Part{3, 0, 8}));
}

// Where a step that was to copy a block is lost, so is the copy.
TEST_F(PrefixTest, AnAbandonedCopyIsNotReliedUpon) {
  Add(Sharing(1, 7, 5));
  PlanAndCommit();
  Add(Sharing(2, 7, 5));
  EXPECT_THAT(Plan().copies, SizeIs(1));
  scheduler().AbandonSteps();
  CheckIntegrity();
  EXPECT_EQ(scheduler().statistics().running_sequences, 1);
  const Step again = Plan();
  EXPECT_THAT(Parts(again), ElementsAre(Part{1, 7, 1}, Part{2, 6, 1}));
  EXPECT_THAT(again.copies, SizeIs(1));
  EXPECT_THAT(Commit(again).finished, IsEmpty());
}

}  // namespace
}  // namespace sluice
