// The draft model at which operations come at random.
#include <gtest/gtest.h>

#include <random>

#include "tests/orchestrator/draft_model/draft_model_fixture.h"

namespace sluice {
namespace {

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
