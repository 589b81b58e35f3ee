#include "orchestrator/kv_cache/kv_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <numeric>
#include <vector>

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Tokens first, first + 1, ...
std::vector<TokenId> Tokens(int count, TokenId first = 100) {
  std::vector<TokenId> tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

std::vector<TokenId> Joined(std::vector<TokenId> a, const std::vector<TokenId>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Slots for all of `tokens` and the word that they have been computed.
Reservation Compute(KvCache& cache, SequenceId sequence, const std::vector<TokenId>& tokens,
                    int first = 0) {
  const auto reservation = cache.Reserve(sequence, first, static_cast<int32_t>(tokens.size()));
  EXPECT_TRUE(reservation.ok()) << reservation.status();
  cache.MarkComputed(sequence, tokens);
  const absl::Status intact = cache.CheckIntegrity();
  EXPECT_TRUE(intact.ok()) << intact;
  return reservation.value_or(Reservation{});
}

// A sequence that begins with what is known of its tokens, and computes the rest. How many it
// found.
int Serve(KvCache& cache, SequenceId sequence, const std::vector<TokenId>& tokens,
          const PrefixDomain& domain = {}) {
  const int found = cache.Begin(sequence, domain, tokens, static_cast<int>(tokens.size()) - 1);
  Compute(cache, sequence, tokens, found);
  return found;
}

TEST(KvCacheOptions, NameTheFieldAndValueThatIsWrong) {
  EXPECT_TRUE(Validate(KvCacheOptions{.num_blocks = 1, .block_size = 1}).ok());
  const absl::Status blocks = Validate(KvCacheOptions{.num_blocks = 0});
  EXPECT_EQ(blocks.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(blocks.message()), HasSubstr("num_blocks is 0"));
  const absl::Status size = Validate(KvCacheOptions{.num_blocks = 1, .block_size = -3});
  EXPECT_EQ(size.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(size.message()), HasSubstr("block_size is -3"));
}

TEST(KvCache, RoundsPositionsUpToBlocks) {
  const KvCache cache({.num_blocks = 1, .block_size = 4});
  EXPECT_EQ(cache.BlocksFor(0), 0);
  EXPECT_EQ(cache.BlocksFor(1), 1);
  EXPECT_EQ(cache.BlocksFor(4), 1);
  EXPECT_EQ(cache.BlocksFor(5), 2);
  EXPECT_EQ(cache.BlocksFor(std::numeric_limits<int32_t>::max()), 1 << 29);
}

TEST(KvCache, GrowsATableAndKeepsItsBlocks) {
  KvCache cache({.num_blocks = 4, .block_size = 4});
  ASSERT_TRUE(cache.Reserve(7, 0, 3).ok());
  EXPECT_THAT(cache.BlockTable(7), ElementsAre(0));
  ASSERT_TRUE(cache.Reserve(7, 3, 4).ok());
  EXPECT_THAT(cache.BlockTable(7), ElementsAre(0));
  ASSERT_TRUE(cache.Reserve(7, 4, 9).ok());
  EXPECT_THAT(cache.BlockTable(7), ElementsAre(0, 1, 2));
  ASSERT_TRUE(cache.Reserve(7, 1, 1).ok());
  EXPECT_THAT(cache.BlockTable(7), ElementsAre(0, 1, 2));
}

TEST(KvCache, RefusesWhatThePoolLacksAndChangesNothing) {
  KvCache cache({.num_blocks = 3, .block_size = 4});
  ASSERT_TRUE(cache.Reserve(1, 0, 8).ok());
  EXPECT_EQ(cache.BlocksMissing(2, 0, 5), 2);
  const absl::Status status = cache.Reserve(2, 0, 5).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("needs 2 more blocks for 5 positions"));
  EXPECT_THAT(cache.BlockTable(2), IsEmpty());
  EXPECT_EQ(cache.statistics().num_sequences, 1);
  EXPECT_EQ(cache.num_available_blocks(), 1);
  EXPECT_TRUE(cache.Reserve(2, 0, 4).ok());
}

// ---- Found by their tokens ----

TEST(KvCache, FindsFullBlocksOfThoseThatAreGone) {
  KvCache cache({.num_blocks = 8, .block_size = 4});
  EXPECT_EQ(Serve(cache, 1, Tokens(10)), 0);
  cache.Release(1);
  EXPECT_EQ(cache.statistics().cached_blocks, 2);
  EXPECT_EQ(cache.num_available_blocks(), 8);
  EXPECT_EQ(Serve(cache, 2, Joined(Tokens(9), {7, 7, 7})), 8);
  EXPECT_THAT(cache.BlockTable(2), ElementsAre(0, 1, 2));
  EXPECT_EQ(cache.statistics().cached_blocks, 0);
  EXPECT_EQ(cache.statistics().hit_positions, 8u);
}

TEST(KvCache, FindsOnlyWhatFollowsTheSameTokens) {
  KvCache cache({.num_blocks = 16, .block_size = 4});
  Serve(cache, 1, Tokens(12));
  EXPECT_EQ(Serve(cache, 2, Joined(Tokens(4, 50), Tokens(12, 104))), 0);
  EXPECT_EQ(Serve(cache, 3, Joined(Tokens(8), Tokens(8, 50))), 8);
  EXPECT_EQ(Serve(cache, 4, Joined(Tokens(3), Tokens(8, 50))), 0);
}

TEST(KvCache, CountsWhatItWouldFindAndChangesNothing) {
  KvCache cache({.num_blocks = 8, .block_size = 4});
  EXPECT_EQ(cache.CountKnown({}, Tokens(9)), 0);
  Serve(cache, 1, Tokens(10));
  cache.Release(1);
  EXPECT_EQ(cache.CountKnown({}, Tokens(10)), 8);
  EXPECT_EQ(cache.CountKnown({}, Joined(Tokens(5), {9, 9, 9})), 4);
  EXPECT_EQ(cache.CountKnown({.salt = "another", .adapter = "", .length_like = 0}, Tokens(10)), 0);
  EXPECT_EQ(cache.statistics().hit_positions, 0u);
}

TEST(KvCache, KeepsDomainsApart) {
  KvCache cache({.num_blocks = 16, .block_size = 4});
  Serve(cache, 1, Tokens(9));
  EXPECT_EQ(Serve(cache, 2, Tokens(9), {.salt = "mine", .adapter = "", .length_like = 0}), 0);
  EXPECT_EQ(Serve(cache, 3, Tokens(9), {.salt = "mine", .adapter = "", .length_like = 0}), 8);
  EXPECT_EQ(Serve(cache, 4, Tokens(9), {.salt = "", .adapter = "a", .length_like = 0}), 0);
  EXPECT_EQ(Serve(cache, 5, Tokens(9), {.salt = "", .adapter = "", .length_like = 64}), 0);
}

TEST(KvCache, LeavesNothingOfASequenceWithoutADomain) {
  KvCache cache({.num_blocks = 8, .block_size = 4});
  Compute(cache, 1, Tokens(8));
  cache.Release(1);
  EXPECT_EQ(cache.statistics().cached_blocks, 0);
  EXPECT_EQ(Serve(cache, 2, Tokens(8)), 0);
}

// The last position has to be computed: it goes into a copy of a block that is found whole.
TEST(KvCache, GoesOnInsideABlockThatItFound) {
  KvCache cache({.num_blocks = 8, .block_size = 4});
  Serve(cache, 1, Tokens(8));
  ASSERT_EQ(cache.Begin(2, {}, Tokens(8), 7), 7);
  EXPECT_EQ(cache.BlocksMissing(2, 7, 8), 1);
  const Reservation reservation = Compute(cache, 2, Tokens(8), 7);
  EXPECT_EQ(reservation.copy, (BlockCopy{.source = 1, .destination = 2}));
  // Once it is full the two blocks are the same, and one of them will do.
  EXPECT_THAT(cache.BlockTable(2), ElementsAre(0, 1));
  EXPECT_EQ(cache.statistics().free_blocks, 6);
  EXPECT_EQ(cache.statistics().copied_blocks, 1u);
}

TEST(KvCache, WritesInPlaceWhereThereIsNoBlockToCopyTo) {
  KvCache cache({.num_blocks = 2, .block_size = 4});
  Serve(cache, 1, Tokens(8));
  cache.Release(1);
  ASSERT_EQ(cache.Begin(2, {}, Tokens(8), 7), 7);
  EXPECT_EQ(cache.BlocksMissing(2, 7, 8), 0);
  EXPECT_EQ(Compute(cache, 2, Tokens(8), 7).copy, std::nullopt);
  EXPECT_THAT(cache.BlockTable(2), ElementsAre(0, 1));
  cache.Release(2);
  EXPECT_EQ(cache.statistics().cached_blocks, 2);
}

TEST(KvCache, TwoThatComputeTheSameEndUpWithOneCopyOfIt) {
  KvCache cache({.num_blocks = 8, .block_size = 4});
  for (const SequenceId id : {1, 2}) ASSERT_EQ(cache.Begin(id, {}, Tokens(9), 8), 0);
  Compute(cache, 1, Tokens(9));
  EXPECT_THAT(cache.BlockTable(1), ElementsAre(0, 1, 2));
  ASSERT_TRUE(cache.Reserve(2, 0, 9).ok());
  EXPECT_THAT(cache.BlockTable(2), ElementsAre(3, 4, 5));
  cache.MarkComputed(2, Tokens(9));
  EXPECT_THAT(cache.BlockTable(2), ElementsAre(0, 1, 5));
  EXPECT_EQ(cache.statistics().free_blocks, 4);
  EXPECT_TRUE(cache.CheckIntegrity().ok());
}

TEST(KvCache, SharesTheLastBlockOfALivingSequenceByCopy) {
  KvCache cache({.num_blocks = 8, .block_size = 4});
  Serve(cache, 1, Tokens(7));
  ASSERT_EQ(cache.Begin(2, {}, Joined(Tokens(6), {9, 9}), 7), 6);
  const Reservation reservation = Compute(cache, 2, Joined(Tokens(6), {9, 9}), 6);
  EXPECT_EQ(reservation.copy, (BlockCopy{.source = 1, .destination = 2}));
  EXPECT_THAT(cache.BlockTable(1), ElementsAre(0, 1));
  EXPECT_THAT(cache.BlockTable(2), ElementsAre(0, 2));
  cache.Release(1);
  EXPECT_EQ(Serve(cache, 3, Tokens(7)), 4) << "the block of one that has gone";
}

TEST(KvCache, EvictsTheLeastRecentlyUsedFromTheEnd) {
  KvCache cache({.num_blocks = 6, .block_size = 4});
  Serve(cache, 1, Tokens(8));
  Serve(cache, 2, Tokens(8, 50));
  cache.Release(1);
  cache.Release(2);
  Serve(cache, 3, Tokens(9));  // uses the first again, and a free block
  cache.Release(3);
  EXPECT_EQ(Compute(cache, 4, Tokens(12, 10)).evicted_blocks, 1);  // two are free
  EXPECT_EQ(cache.Begin(5, {}, Tokens(9, 50), 8), 4) << "its end went first";
  cache.Release(5);
  EXPECT_EQ(cache.Begin(5, {}, Tokens(9), 8), 8);
  EXPECT_EQ(cache.statistics().evicted_blocks, 1u);
  EXPECT_TRUE(cache.CheckIntegrity().ok());
}

TEST(KvCache, ForgetsWhatWasLost) {
  KvCache cache({.num_blocks = 6, .block_size = 4});
  Serve(cache, 1, Tokens(8));
  cache.Release(1);
  cache.ForgetContents();
  EXPECT_EQ(cache.statistics().free_blocks, 6);
  EXPECT_EQ(Serve(cache, 2, Tokens(8)), 0);
}

// ---- Forks ----

TEST(KvCache, ForksShareEveryBlockUntilOneIsWritten) {
  KvCache cache({.num_blocks = 8, .block_size = 4});
  Compute(cache, 1, Tokens(6));
  cache.Fork(1, 2, 6);
  cache.Fork(1, 3, 5);
  cache.Fork(1, 4, 4);
  EXPECT_THAT(cache.BlockTable(2), ElementsAre(0, 1));
  EXPECT_THAT(cache.BlockTable(3), ElementsAre(0, 1));
  EXPECT_THAT(cache.BlockTable(4), ElementsAre(0));
  EXPECT_EQ(cache.statistics().used_blocks, 2);
  EXPECT_EQ(cache.statistics().shared_blocks, 2);
  EXPECT_EQ(cache.BlocksMissing(1, 6, 7), 1);
  EXPECT_EQ(cache.BlocksMissing(4, 4, 5), 1);
  EXPECT_EQ(cache.BlocksMissing(4, 4, 4), 0) << "nothing is written";
  // Everybody but the last to write gets a copy.
  EXPECT_EQ(cache.Reserve(1, 6, 7)->copy, (BlockCopy{.source = 1, .destination = 2}));
  EXPECT_EQ(cache.Reserve(3, 5, 6)->copy, (BlockCopy{.source = 1, .destination = 3}));
  EXPECT_EQ(cache.BlocksMissing(2, 6, 7), 0);
  EXPECT_EQ(cache.Reserve(2, 6, 7)->copy, std::nullopt);
  EXPECT_EQ(cache.Reserve(4, 4, 5)->copy, std::nullopt);
  EXPECT_THAT(cache.BlockTable(1), ElementsAre(0, 2));
  EXPECT_THAT(cache.BlockTable(2), ElementsAre(0, 1));
  EXPECT_THAT(cache.BlockTable(3), ElementsAre(0, 3));
  EXPECT_THAT(cache.BlockTable(4), ElementsAre(0, 4));
  EXPECT_TRUE(cache.CheckIntegrity().ok());
}

TEST(KvCache, ForksOfNothingHoldNothing) {
  KvCache cache({.num_blocks = 8, .block_size = 4});
  cache.Fork(1, 2, 0);
  EXPECT_THAT(cache.BlockTable(2), IsEmpty());
}

TEST(KvCache, KeepsSharedBlocksUntilTheLastSequenceReleasesThem) {
  KvCache cache({.num_blocks = 4, .block_size = 4});
  Compute(cache, 1, Tokens(12));
  cache.Fork(1, 2, 8);
  EXPECT_EQ(cache.BlocksFreedBy({1}, 9, 0), 1);
  EXPECT_EQ(cache.BlocksFreedBy({2}, 9, 0), 0);
  EXPECT_EQ(cache.BlocksFreedBy({1, 2}, 9, 0), 3);
  EXPECT_EQ(cache.BlocksFreedBy({1}, 2, 6), 2) << "and the copy of block 1";
  EXPECT_EQ(cache.BlocksOf(1).held, 3);
  EXPECT_EQ(cache.BlocksOf(1).shared, 2);
  cache.Release(1);
  EXPECT_EQ(cache.num_available_blocks(), 2);
  EXPECT_THAT(cache.BlockTable(2), ElementsAre(0, 1));
  cache.Release(2);
  EXPECT_EQ(cache.num_available_blocks(), 4);
  cache.Release(2);
  EXPECT_EQ(cache.statistics().num_sequences, 0);
}

// ---- What the shards are told ----

std::vector<BlockId> Told(KvCache& cache, SequenceId sequence, int32_t first_block) {
  const TableChange change = cache.TakeTableChange(sequence);
  EXPECT_EQ(change.first_block, first_block);
  return {change.blocks.begin(), change.blocks.end()};
}

TEST(KvCache, TellsOfATableWhatHasChangedInIt) {
  KvCache cache({.num_blocks = 8, .block_size = 4});
  Compute(cache, 1, Tokens(6));
  EXPECT_THAT(Told(cache, 1, 0), ElementsAre(0, 1));
  EXPECT_THAT(Told(cache, 1, 2), IsEmpty());
  EXPECT_FALSE(cache.IsReserved(1, 6, 9));
  ASSERT_TRUE(cache.Reserve(1, 6, 9).ok());
  EXPECT_TRUE(cache.IsReserved(1, 6, 9));
  EXPECT_THAT(Told(cache, 1, 2), ElementsAre(2));
  // A block that is copied before it is written stands in the middle of the table.
  cache.Fork(1, 2, 6);
  EXPECT_FALSE(cache.IsReserved(1, 6, 9)) << "the block of position 6 is shared";
  ASSERT_TRUE(cache.Reserve(1, 6, 9)->copy.has_value());
  EXPECT_THAT(Told(cache, 1, 1), ElementsAre(3, 2));
  EXPECT_THAT(Told(cache, 2, 0), ElementsAre(0, 1));
  EXPECT_TRUE(cache.CheckIntegrity().ok());
}

TEST(KvCache, TellsOfBlocksThatGiveWayToTheSameOnesOfOthers) {
  KvCache cache({.num_blocks = 8, .block_size = 4});
  ASSERT_EQ(cache.Begin(1, {}, Tokens(8), 7), 0);
  ASSERT_EQ(cache.Begin(2, {}, Tokens(8), 7), 0);
  ASSERT_TRUE(cache.Reserve(1, 0, 8).ok());
  ASSERT_TRUE(cache.Reserve(2, 0, 8).ok());
  EXPECT_THAT(Told(cache, 2, 0), ElementsAre(2, 3));
  cache.MarkComputed(1, Tokens(8));
  cache.MarkComputed(2, Tokens(8));
  EXPECT_THAT(Told(cache, 2, 0), ElementsAre(0, 1));
}

TEST(KvCache, TellsWhichTablesAreOver) {
  KvCache cache({.num_blocks = 8, .block_size = 4});
  Compute(cache, 1, Tokens(6));
  Compute(cache, 2, Tokens(6, 200));
  Told(cache, 1, 0);
  cache.Release(1);
  cache.Release(2);  // nobody has heard of it
  EXPECT_THAT(cache.TakeEndedTables(), ElementsAre(1));
  EXPECT_THAT(cache.TakeEndedTables(), IsEmpty());
}

TEST(KvCache, TellsEverythingAgainToShardsThatHaveForgotten) {
  KvCache cache({.num_blocks = 8, .block_size = 4});
  Compute(cache, 1, Tokens(6));
  Compute(cache, 2, Tokens(6, 200));
  Told(cache, 1, 0);
  Told(cache, 2, 0);
  cache.Release(2);
  cache.ForgetToldTables();
  EXPECT_THAT(cache.TakeEndedTables(), IsEmpty());
  EXPECT_THAT(Told(cache, 1, 0), ElementsAre(0, 1));
}

}  // namespace
}  // namespace sluice
