// The draft model in virtual time, over a replica whose tokens are a function of all the keys and
// values before them: what is proposed is what that model says behind the sequence's tokens, however
// often it was wrong, pushed out, or lost.
#include "orchestrator/draft_model/draft_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "tests/orchestrator/scheduler/fake_replica.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

using TokenIds = std::vector<TokenId>;

// A FakeReplica behind the interface of the real one.
class PipelineReplica final : public Replica {
 public:
  PipelineReplica(int32_t num_blocks, int32_t block_size)
      : geometry_{block_size, num_blocks}, fake_(num_blocks, block_size, nullptr) {
    topology_.shards = {{"a"}};
  }

  void BeReady(bool kept_blocks = false, const std::string& changed = "") {
    events_.emplace_back(ReplicaReady{++epoch_, geometry_, kept_blocks, changed});
  }
  void BeLost(bool with_blocks) {
    sent_.clear();
    with_blocks ? fake_.Lose() : fake_.Drop();
    events_.emplace_back(ReplicaLost{absl::UnavailableError("lost")});
  }
  // Executes the oldest step; false where there is none.
  bool ExecuteOne() {
    if (sent_.empty()) return false;
    const Sent sent = sent_.front();
    sent_.pop_front();
    const absl::StatusOr<TokenIds> tokens = fake_.ExecuteThrough(sent.step);
    EXPECT_TRUE(tokens.ok()) << tokens.status();
    StepExecuted executed = {.step = sent.step, .rows = std::vector<RowResult>(sent.num_rows)};
    for (size_t i = 0; i < sent.num_rows; ++i) {
      executed.rows[i].token = tokens->at(i);
      executed.rows[i].logprob = logprob;
      executed.rows[i].error = error;
    }
    events_.emplace_back(std::move(executed));
    return true;
  }
  bool busy() const { return !sent_.empty(); }

  void Advance(SteadyTime) override {}
  SteadyTime NextWake() const override { return SteadyTime::InfiniteFuture(); }
  std::vector<ReplicaEvent> TakeEvents() override { return std::exchange(events_, {}); }
  void Execute(const Step& step, absl::Span<const RowRequest> rows) override {
    std::vector<std::vector<uint64_t>> chains;
    ASSERT_EQ(rows.size(), step.segments.size()) << "a step of the tests has a row a segment";
    for (size_t i = 0; i < rows.size(); ++i) {
      EXPECT_EQ(rows[i].sequence, step.segments[i].sequence);
      EXPECT_EQ(rows[i].position, std::ssize(rows[i].tokens));
      chains.push_back(HashChain(TokenIds(rows[i].tokens.begin(), rows[i].tokens.end()), nullptr));
    }
    last_step = step;
    last_rows.assign(rows.begin(), rows.end());
    fake_.Submit(step, chains);
    sent_.push_back({step.id, rows.size()});
  }
  void GiveUp(const absl::Status& status) override { given_up = status; }
  const Topology& topology() const override { return topology_; }
  std::shared_ptr<const std::vector<ReplicaProcess>> processes() const override {
    return std::make_shared<std::vector<ReplicaProcess>>();
  }

  float logprob = -0.01F;
  std::string error;
  absl::Status given_up;
  Step last_step;
  std::vector<RowRequest> last_rows;

 private:
  struct Sent {
    StepId step = 0;
    size_t num_rows = 0;
  };
  const KvGeometry geometry_;
  Topology topology_;
  FakeReplica fake_;
  uint64_t epoch_ = 0;
  std::vector<ReplicaEvent> events_;
  std::deque<Sent> sent_;
};

// What the model says behind these tokens.
TokenId NextOf(const TokenIds& tokens) { return NextToken(HashChain(tokens, nullptr).back()); }

class DraftModelTest : public ::testing::Test {
 protected:
  void Make(int32_t num_blocks = 64, int32_t max_positions = 200) {
    replica_ = std::make_unique<PipelineReplica>(num_blocks, 4);
    DraftModelOptions options;
    options.scheduler.max_positions = max_positions;
    options.scheduler.max_sequences_per_step = 16;
    options.scheduler.max_tokens_per_step = 1000;
    model_ = std::make_unique<DraftModel>(
        options, replica_.get(),
        DraftModelOwner{
            .describe_row =
                [this](SequenceId sequence) {
                  RowRequest row;
                  row.task = &sampling_;
                  row.sequence_index = static_cast<int32_t>(sequence);
                  return row;
                },
            .goes_on = [this](SequenceId, absl::Span<const DraftToken>) { return goes_on_; },
            .on_step = [this](int32_t rows, absl::Duration) { rows_ += rows; }});
    replica_->BeReady();
    Turn();
  }

  // One turn of the loop.
  void Turn() {
    model_->Advance(now_);
    model_->SendSteps(now_);
    const absl::Status status = model_->CheckIntegrity();
    ASSERT_TRUE(status.ok()) << status;
  }
  void Step() {
    now_ = now_ + absl::Milliseconds(1);
    replica_->ExecuteOne();
    Turn();
  }
  void StepAll() {
    while (replica_->busy()) Step();
  }

  // The sequence comes to have these tokens.
  void Have(SequenceId id, const TokenIds& tokens) {
    if (tokens_.count(id) == 0) num_prompt_[id] = static_cast<int32_t>(tokens.size()) - 1;
    tokens_[id] = tokens;
    SequenceSpec spec;
    spec.id = id;
    spec.max_new_tokens = 150;
    model_->OnTokens(spec, num_prompt_[id], tokens);
  }
  void HaveMore(SequenceId id, const TokenIds& more) {
    TokenIds tokens = tokens_[id];
    tokens.insert(tokens.end(), more.begin(), more.end());
    Have(id, tokens);
  }
  void CatchUp(SequenceId id) {
    model_->CatchUp(id);
    Turn();
    StepAll();
  }
  bool Begin(SequenceId id, int32_t length) {
    const bool begun = model_->Begin(id, length);
    Turn();
    return begun;
  }

  TokenIds ProposalOf(SequenceId id) {
    TokenIds proposal;
    for (const DraftToken& token : model_->ProposalOf(id)) proposal.push_back(token.token);
    return proposal;
  }
  // What the model would say, `count` tokens of it.
  TokenIds Future(SequenceId id, int count) {
    TokenIds all = tokens_[id];
    for (int i = 0; i < count; ++i) all.push_back(NextOf(all));
    return {all.end() - count, all.end()};
  }

  SamplingOptions sampling_;
  bool goes_on_ = true;
  int32_t rows_ = 0;
  std::unique_ptr<PipelineReplica> replica_;
  std::unique_ptr<DraftModel> model_;
  SteadyTime now_ = SteadyTime::FromStart(absl::Hours(1));
  std::map<SequenceId, TokenIds> tokens_;
  std::map<SequenceId, int32_t> num_prompt_;
};

TEST_F(DraftModelTest, ProposesWhatItsModelSaysOneStepAToken) {
  Make();
  Have(1, {3, 1, 4, 1, 5, 9});
  EXPECT_FALSE(model_->IsClose(1));
  EXPECT_FALSE(Begin(1, 3)) << "nothing is computed of it";
  CatchUp(1);
  EXPECT_EQ(rows_, 6);
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
  rows_ = 0;
  ASSERT_TRUE(Begin(1, 2));
  Step();
  EXPECT_EQ(rows_, 1) << "what was right is not computed again";
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
  rows_ = 0;
  ASSERT_TRUE(Begin(1, 2));
  Step();
  EXPECT_EQ(rows_, 2);
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

// Whatever happens to sequences and to the replica, in a pool too small for all: no slot is ever
// wrong (FakeReplica), the books agree, and a proposal is what the model says behind the tokens.
TEST_F(DraftModelTest, ProposesTheSameWhateverHappens) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto pick = [&random](int low, int high) {
      return std::uniform_int_distribution<int>(low, high)(random);
    };
    tokens_.clear();
    num_prompt_.clear();
    Make(/*num_blocks=*/pick(8, 40), /*max_positions=*/120);
    SequenceId next_id = 1;
    bool lost = false;
    int num_checked = 0;
    for (int i = 0; i < 600 && !HasFatalFailure(); ++i) {
      const auto some = [&] {
        return std::next(tokens_.begin(), pick(0, tokens_.size() - 1))->first;
      };
      const int what = pick(0, 99);
      if (tokens_.empty() || (what < 6 && tokens_.size() < 6)) {
        TokenIds prompt(pick(2, 20));
        for (TokenId& token : prompt) token = pick(0, 2);
        Have(next_id++, prompt);
      } else if (what < 12) {
        const SequenceId id = some();
        model_->OnEnd(id);
        tokens_.erase(id);
      } else if (what < 40) {
        const SequenceId id = some();
        TokenIds more = Future(id, pick(1, 5));
        if (pick(0, 1) == 0) more.back() = pick(0, 49);
        if (tokens_[id].size() + more.size() < 140) HaveMore(id, more);
      } else if (what < 55) {
        model_->CatchUp(some());
      } else if (what < 75) {
        model_->Begin(some(), pick(1, 6));
      } else if (what < 97) {
        replica_->ExecuteOne();
      } else if (lost) {
        replica_->BeReady();
        lost = false;
      } else {
        replica_->BeLost(/*with_blocks=*/true);
        lost = true;
      }
      now_ = now_ + absl::Microseconds(100);
      Turn();
      for (const auto& [id, tokens] : tokens_) {
        const TokenIds proposal = ProposalOf(id);
        ASSERT_EQ(proposal, Future(id, static_cast<int>(proposal.size())));
        num_checked += proposal.empty() ? 0 : 1;
      }
    }
    EXPECT_GT(num_checked, 20);
    for (const auto& [id, tokens] : tokens_) model_->OnEnd(id);
    Turn();
    EXPECT_EQ(model_->status().scheduler.kv_cache.used_blocks, 0);
  }
}

}  // namespace
}  // namespace sluice
