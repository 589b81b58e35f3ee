// Slots for the states of recurrent layers, of which there are fewer than blocks.
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "orchestrator/kv_cache/kv_cache.h"

namespace sluice {
namespace {

constexpr int32_t kBlock = 4;  // positions

std::vector<TokenId> TokensUpTo(int32_t end) {
  std::vector<TokenId> tokens(end);
  std::iota(tokens.begin(), tokens.end(), 100);
  return tokens;
}

class KvCacheStates : public ::testing::Test {
 protected:
  void Use(int32_t num_slots) {
    cache_ = KvCache({.num_blocks = 64, .block_size = kBlock, .num_state_slots = num_slots});
  }
  // Begins with what is known of the first `end` tokens; computes the others in chunks.
  int32_t Compute(SequenceId sequence, int32_t end, int32_t chunk) {
    const std::vector<TokenId> tokens = TokensUpTo(end);
    const int32_t found = cache_.Begin(sequence, {}, tokens, end - 1);
    for (int32_t first = found; first < end; first += chunk) {
      Step(sequence, first, std::min(end, first + chunk));
      cache_.MarkComputed(sequence, TokensUpTo(std::min(end, first + chunk)));
    }
    return found;
  }
  std::vector<StateSlot> Step(SequenceId sequence, int32_t first, int32_t end) {
    last_ = cache_.Reserve(sequence, first, end).value();
    EXPECT_LE(cache_.StatesMissing(sequence, first, end), cache_.num_available_states());
    cache_.ReserveStates(sequence, first, end);
    EXPECT_TRUE(cache_.CheckIntegrity().ok()) << cache_.CheckIntegrity();
    return cache_.StatesOf(sequence, first, end);
  }

  KvCache cache_{{.num_blocks = 64, .block_size = kBlock, .num_state_slots = 8}};
  Reservation last_;
};

TEST_F(KvCacheStates, ASequenceComputesAnyLengthWithTwoSlots) {
  Use(2);
  Compute(1, 60, 13);
  EXPECT_EQ(cache_.BlocksOf(1).states, 1);
  Compute(2, 1, 1);  // another one takes the second
  EXPECT_EQ(cache_.num_available_states(), 0);
  EXPECT_EQ(cache_.StatesMissing(1, 60, 61), 1);
  EXPECT_EQ(cache_.StatesFreedBy(std::vector<SequenceId>{2}, 1, 60), 1);
  cache_.Release(2);
  EXPECT_EQ(Step(1, 60, 61).size(), 2u);
  EXPECT_EQ(cache_.BlocksOf(1).states, 2);  // until the step has ended, that before it as well
  cache_.MarkComputed(1, TokensUpTo(61));
  EXPECT_EQ(cache_.BlocksOf(1).states, 1);
}

TEST_F(KvCacheStates, BlocksThatAStepPassesHaveTheSlotOfTheNextOne) {
  Use(2);
  (void)cache_.Begin(1, {}, TokensUpTo(1), 0);
  const std::vector<StateSlot> slots = Step(1, 0, 3 * kBlock + 1);
  EXPECT_EQ(slots, std::vector<StateSlot>(4, slots[0]));
}

TEST_F(KvCacheStates, APromptIsFoundUpToItsLastWholeBlock) {
  Compute(1, 4 * kBlock + 2, 100);
  cache_.Release(1);
  EXPECT_EQ(cache_.statistics().used_states, 0);
  EXPECT_GE(cache_.statistics().cached_states, 1);
  EXPECT_EQ(cache_.CountKnown({}, TokensUpTo(40)), 4 * kBlock);
  EXPECT_EQ(Compute(2, 40, 100), 4 * kBlock);
}

TEST_F(KvCacheStates, WhatIsFoundEndsWithAState) {
  Use(2);
  Compute(1, 6 * kBlock, 100);  // no slot to spare for the blocks before the last
  cache_.Release(1);
  // The last position is computed in any case, inside the block that is found.
  EXPECT_EQ(cache_.Begin(2, {}, TokensUpTo(6 * kBlock), 6 * kBlock - 1), 6 * kBlock - 1);
  cache_.Release(2);
  std::vector<TokenId> others = TokensUpTo(6 * kBlock);
  others.back() = 7;
  EXPECT_EQ(cache_.Begin(3, {}, others, 6 * kBlock - 1), 0);
}

TEST_F(KvCacheStates, AForkGoesOnFromACopyOfItsState) {
  Compute(1, kBlock + 2, 100);
  EXPECT_EQ(cache_.Fork(1, 2, kBlock + 2), kBlock + 2);
  EXPECT_EQ(cache_.StatesMissing(2, kBlock + 2, kBlock + 3), 1);
  const StateSlot shared = cache_.StatesOf(1, kBlock + 2, kBlock + 3).back();
  const StateSlot own = Step(2, kBlock + 2, kBlock + 3).back();
  EXPECT_EQ(last_.state_copy, (StateCopy{.source = shared, .destination = own}));
  EXPECT_NE(own, shared);
}

TEST_F(KvCacheStates, AForkOfAnEarlierPositionGoesBackToAState) {
  Use(2);
  Compute(1, 3 * kBlock + 2, 100);
  EXPECT_EQ(cache_.Fork(1, 2, 2 * kBlock), 0);
  EXPECT_TRUE(cache_.BlockTable(2).empty());
}

TEST_F(KvCacheStates, SnapshotsGiveWayToSequences) {
  Use(4);
  Compute(1, 9 * kBlock, kBlock);  // leaves one at each block, as far as they go
  EXPECT_EQ(cache_.statistics().cached_states, 3);
  Compute(2, 1, 1);
  Compute(3, 1, 1);
  EXPECT_EQ(cache_.statistics().cached_states, 1);
  EXPECT_EQ(cache_.CountKnown({}, TokensUpTo(9 * kBlock)), 9 * kBlock);
  cache_.Release(1);
  EXPECT_EQ(cache_.statistics().evicted_states, 2u + 5u);
}

TEST_F(KvCacheStates, OneSlotIsRefused) {
  EXPECT_EQ(Validate(KvCacheOptions{.num_blocks = 4, .num_state_slots = 1}).message(),
            "num_state_slots is 1; accepted: 0, or at least 2");
}

}  // namespace
}  // namespace sluice
