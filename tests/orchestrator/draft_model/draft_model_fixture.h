// The draft model in virtual time, over a replica whose tokens are a function of all the keys and
// values before them.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "orchestrator/draft_model/draft_model.h"
#include "tests/orchestrator/scheduler/fake_replica.h"

namespace sluice {

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
    with_blocks ? fake_.Lose(geometry_.num_blocks) : fake_.Drop();
    events_.emplace_back(ReplicaLost{absl::UnavailableError("lost")});
  }
  // Executes the oldest step; false where there is none.
  bool ExecuteOne() {
    if (sent_.empty()) return false;
    const Sent sent = sent_.front();
    sent_.pop_front();
    num_positions += sent.num_positions;
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
    sent_.push_back({step.id, rows.size(), step.num_tokens()});
  }
  void MarkFailed(const absl::Status& status) override { given_up = status; }
  const Topology& topology() const override { return topology_; }
  std::shared_ptr<const std::vector<ReplicaProcess>> processes() const override {
    return std::make_shared<std::vector<ReplicaProcess>>();
  }

  float logprob = -0.01F;
  std::string error;
  absl::Status given_up;
  Step last_step;
  int32_t num_positions = 0;  // of executed steps
  std::vector<RowRequest> last_rows;

 private:
  struct Sent {
    StepId step = 0;
    size_t num_rows = 0;
    int32_t num_positions = 0;
  };
  const KvGeometry geometry_;
  Topology topology_;
  FakeReplica fake_;
  uint64_t epoch_ = 0;
  std::vector<ReplicaEvent> events_;
  std::deque<Sent> sent_;
};

// What the model says behind these tokens.
inline TokenId NextOf(const TokenIds& tokens) {
  return NextToken(HashChain(tokens, nullptr).back());
}

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
            .goes_on = [this](SequenceId, absl::Span<const DraftToken>) { return goes_on_; }});
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
  std::unique_ptr<PipelineReplica> replica_;
  std::unique_ptr<DraftModel> model_;
  SteadyTime now_ = SteadyTime::FromStart(absl::Hours(1));
  std::map<SequenceId, TokenIds> tokens_;
  std::map<SequenceId, int32_t> num_prompt_;
};

}  // namespace sluice
