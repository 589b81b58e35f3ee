// What is proposed is what the draft model says behind the sequence's tokens, however often it was
// wrong, pushed out, or lost.
#include "orchestrator/draft_model/draft_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "tests/orchestrator/draft_model/draft_model_fixture.h"

namespace sluice {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST_F(DraftModelTest, ProposesWhatItsModelSaysOneStepAToken) {
  Make();
  Have(1, {3, 1, 4, 1, 5, 9});
  EXPECT_FALSE(model_->IsClose(1));
  EXPECT_FALSE(Begin(1, 3)) << "nothing is computed of it";
  CatchUp(1);
  EXPECT_EQ(replica_->num_positions, 6);
  ASSERT_TRUE(model_->IsClose(1));
  EXPECT_THAT(ProposalOf(1), SizeIs(1)) << "the first comes with what was computed";
  ASSERT_TRUE(Begin(1, 3));
  EXPECT_TRUE(model_->IsAtWork(1));
  Step();
  EXPECT_TRUE(model_->IsAtWork(1));
  Step();
  EXPECT_FALSE(model_->IsAtWork(1));
  EXPECT_EQ(ProposalOf(1), Future(1, 3));
  EXPECT_FALSE(replica_->busy());
  EXPECT_EQ(model_->status().num_proposed_tokens, 3u);
}

TEST_F(DraftModelTest, RowsAreThoseOfTheSequenceItDraftsFor) {
  Make();
  Have(7, {3, 1, 4});
  CatchUp(7);
  ASSERT_THAT(replica_->last_rows, SizeIs(1));
  const RowRequest& row = replica_->last_rows[0];
  EXPECT_EQ(row.sequence_index, 7);
  EXPECT_EQ(row.position, 3);
  EXPECT_EQ(std::get<const SamplingOptions*>(row.task), &sampling_);
}

TEST_F(DraftModelTest, AfterAWrongTokenItGoesOnFromWhereBothAgree) {
  Make();
  Have(1, {3, 1, 4, 1, 5, 9});
  CatchUp(1);
  Begin(1, 4);
  StepAll();
  const TokenIds proposal = ProposalOf(1);
  HaveMore(1, {proposal[0], proposal[1], 49 - proposal[2]});
  EXPECT_THAT(ProposalOf(1), IsEmpty());
  replica_->num_positions = 0;
  ASSERT_TRUE(Begin(1, 2));
  Step();
  EXPECT_EQ(replica_->num_positions, 1) << "what was right is not computed again";
  Step();
  EXPECT_EQ(ProposalOf(1), Future(1, 2));
}

TEST_F(DraftModelTest, WhereAllWereRightTheLastOneIsComputedWithTheNext) {
  Make();
  Have(1, {3, 1, 4, 1, 5, 9});
  CatchUp(1);
  Begin(1, 3);
  StepAll();
  HaveMore(1, Future(1, 4));
  replica_->num_positions = 0;
  ASSERT_TRUE(Begin(1, 2));
  Step();
  EXPECT_EQ(replica_->num_positions, 2);
  Step();
  EXPECT_EQ(ProposalOf(1), Future(1, 2));
}

TEST_F(DraftModelTest, StopsWhereAnotherTokenIsNotWorthAStep) {
  Make();
  Have(1, {3, 1, 4});
  CatchUp(1);
  goes_on_ = false;
  EXPECT_TRUE(Begin(1, 4));
  EXPECT_FALSE(model_->IsAtWork(1));
  EXPECT_FALSE(replica_->busy());
  EXPECT_THAT(ProposalOf(1), SizeIs(1));
}

TEST_F(DraftModelTest, SaysHowSureItIs) {
  Make();
  const std::pair<float, DraftKind> cases[] = {{-0.05F, DraftKind::kModelSure},
                                               {-0.4F, DraftKind::kModelLikely},
                                               {-1.0F, DraftKind::kModelUnsure},
                                               {-3.0F, DraftKind::kModelGuess}};
  SequenceId id = 0;
  for (const auto& [logprob, kind] : cases) {
    Have(++id, {3, 1, 4});
    replica_->logprob = logprob;
    CatchUp(id);
    ASSERT_THAT(model_->ProposalOf(id), SizeIs(1));
    EXPECT_EQ(model_->ProposalOf(id)[0].kind, kind) << logprob;
  }
}

TEST_F(DraftModelTest, SequencesAreDraftedForInTheSameSteps) {
  Make();
  for (const SequenceId id : {1, 2, 3}) {
    Have(id, {static_cast<TokenId>(id), 1, 4});
    CatchUp(id);
  }
  for (const SequenceId id : {1, 2, 3}) EXPECT_TRUE(model_->Begin(id, 3));
  const uint64_t before = model_->status().num_steps;
  Turn();
  StepAll();
  EXPECT_EQ(model_->status().num_steps - before, 2u);
  for (const SequenceId id : {1, 2, 3}) EXPECT_EQ(ProposalOf(id), Future(id, 3));
}

TEST_F(DraftModelTest, WhatComesWhileItComputesIsNotMissed) {
  Make();
  Have(1, {3, 1, 4});
  CatchUp(1);
  Begin(1, 4);
  HaveMore(1, {11, 12});
  EXPECT_FALSE(model_->IsAtWork(1)) << "nobody asks any more";
  StepAll();
  EXPECT_THAT(ProposalOf(1), IsEmpty());
  ASSERT_TRUE(Begin(1, 2));
  StepAll();
  EXPECT_EQ(ProposalOf(1), Future(1, 2));
}

TEST_F(DraftModelTest, ASequenceForWhichThereIsNoRoomHasNoDraft) {
  Make(/*num_blocks=*/12);
  Have(1, TokenIds(20, 1));
  Have(2, TokenIds(20, 2));
  CatchUp(1);
  CatchUp(2);
  EXPECT_TRUE(model_->IsClose(1));
  EXPECT_FALSE(model_->IsClose(2));
  EXPECT_EQ(model_->status().scheduler.running_sequences, 1);
  model_->OnEnd(1);
  CatchUp(2);
  EXPECT_TRUE(model_->IsClose(2));
}

TEST_F(DraftModelTest, ASequenceBeyondItsContextHasNoDraft) {
  Make(64, /*max_positions=*/20);
  Have(1, TokenIds(15, 1));
  CatchUp(1);
  EXPECT_TRUE(model_->IsClose(1));
  HaveMore(1, TokenIds(4, 2));
  Begin(1, 4);
  StepAll();
  EXPECT_FALSE(model_->IsAtWork(1));
  HaveMore(1, TokenIds(4, 2));
  CatchUp(1);
  EXPECT_FALSE(model_->IsClose(1));
  EXPECT_FALSE(Begin(1, 1));
  EXPECT_EQ(model_->status().scheduler.running_sequences, 0);
}

TEST_F(DraftModelTest, ARowWithoutATokenEndsTheDraft) {
  Make();
  Have(1, {3, 1, 4});
  replica_->error = "every token is forbidden";
  CatchUp(1);
  EXPECT_THAT(ProposalOf(1), IsEmpty());
  EXPECT_FALSE(model_->IsClose(1));
  replica_->error.clear();
  HaveMore(1, {1});
  ASSERT_TRUE(Begin(1, 1));
  StepAll();
  EXPECT_EQ(ProposalOf(1), Future(1, 1));
}

TEST_F(DraftModelTest, WhenTheReplicaIsLostNobodyIsAtWorkAndItComesBackByItself) {
  Make();
  Have(1, {3, 1, 4, 1, 5});
  CatchUp(1);
  Begin(1, 4);
  replica_->BeLost(/*with_blocks=*/true);
  Turn();
  EXPECT_FALSE(model_->IsAtWork(1));
  EXPECT_FALSE(model_->IsClose(1));
  EXPECT_FALSE(Begin(1, 2));
  HaveMore(1, {9});
  replica_->BeReady();
  Turn();
  StepAll();
  CatchUp(1);
  ASSERT_TRUE(Begin(1, 2));
  StepAll();
  EXPECT_EQ(ProposalOf(1), Future(1, 2));
  EXPECT_EQ(model_->status().num_recoveries, 1u);
}

TEST_F(DraftModelTest, ASequenceOverWhichItIsLostAgainAndAgainIsLeftAlone) {
  Make();
  Have(1, {3, 1, 4, 1, 5});
  for (int i = 0; i < 4; ++i) {
    model_->CatchUp(1);
    Turn();
    ASSERT_TRUE(replica_->busy()) << i;
    replica_->BeLost(/*with_blocks=*/true);
    Turn();
    replica_->BeReady();
    Turn();
  }
  CatchUp(1);
  EXPECT_FALSE(replica_->busy());
  EXPECT_FALSE(model_->IsClose(1));
  Have(2, {3, 1, 4});
  CatchUp(2);
  EXPECT_TRUE(model_->IsClose(2));
}

TEST_F(DraftModelTest, AStepThatHangsIsGivenUp) {
  Make();
  Have(1, {3, 1, 4});
  model_->CatchUp(1);
  Turn();
  EXPECT_LE(model_->NextWake(), now_ + absl::Minutes(1));
  now_ = model_->NextWake();
  Turn();
  EXPECT_EQ(replica_->given_up.code(), absl::StatusCode::kDeadlineExceeded);
}

TEST_F(DraftModelTest, BeginsAnewWithProcessesOfOtherArithmetic) {
  Make();
  Have(1, {3, 1, 4});
  CatchUp(1);
  replica_->BeLost(/*with_blocks=*/true);
  replica_->BeReady(false, "other arithmetic");
  Turn();
  EXPECT_EQ(model_->status().scheduler.running_sequences, 0);
  CatchUp(1);
  ASSERT_TRUE(Begin(1, 2));
  StepAll();
  EXPECT_EQ(ProposalOf(1), Future(1, 2));
}

}  // namespace
}  // namespace sluice
