#include "orchestrator/kv_cache/kv_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <vector>

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

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
  ASSERT_TRUE(cache.Reserve(7, 3).ok());
  EXPECT_THAT(cache.BlockTable(7), ElementsAre(0));
  ASSERT_TRUE(cache.Reserve(7, 4).ok());
  EXPECT_THAT(cache.BlockTable(7), ElementsAre(0));
  ASSERT_TRUE(cache.Reserve(7, 9).ok());
  EXPECT_THAT(cache.BlockTable(7), ElementsAre(0, 1, 2));
  ASSERT_TRUE(cache.Reserve(7, 1).ok());
  EXPECT_THAT(cache.BlockTable(7), ElementsAre(0, 1, 2));
}

TEST(KvCache, RefusesWhatThePoolLacksAndChangesNothing) {
  KvCache cache({.num_blocks = 3, .block_size = 4});
  ASSERT_TRUE(cache.Reserve(1, 8).ok());
  const absl::Status status = cache.Reserve(2, 5);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("needs 2 more blocks for 5 positions"));
  EXPECT_THAT(cache.BlockTable(2), IsEmpty());
  EXPECT_EQ(cache.statistics().num_sequences, 1);
  EXPECT_EQ(cache.num_free_blocks(), 1);
  EXPECT_TRUE(cache.Reserve(2, 4).ok());
}

TEST(KvCache, SharesOnlyBlocksThatLieWhollyInThePrefix) {
  KvCache cache({.num_blocks = 8, .block_size = 4});
  ASSERT_TRUE(cache.Reserve(1, 12).ok());
  EXPECT_EQ(cache.SharePrefix(1, 2, 11), 8);
  EXPECT_THAT(cache.BlockTable(2), ElementsAre(0, 1));
  EXPECT_EQ(cache.SharePrefix(1, 3, 3), 0);
  EXPECT_THAT(cache.BlockTable(3), IsEmpty());
  EXPECT_EQ(cache.SharePrefix(1, 4, 100), 12);
  EXPECT_EQ(cache.SharePrefix(99, 5, 12), 0);
  EXPECT_EQ(cache.statistics().shared_blocks, 3);
  EXPECT_EQ(cache.statistics().used_blocks, 3);
  EXPECT_TRUE(cache.CheckIntegrity().ok());
}

TEST(KvCache, GrowsASharedPrefixWithBlocksOfItsOwn) {
  KvCache cache({.num_blocks = 8, .block_size = 4});
  ASSERT_TRUE(cache.Reserve(1, 8).ok());
  ASSERT_EQ(cache.SharePrefix(1, 2, 8), 8);
  ASSERT_TRUE(cache.Reserve(1, 12).ok());
  ASSERT_TRUE(cache.Reserve(2, 12).ok());
  EXPECT_THAT(cache.BlockTable(1), ElementsAre(0, 1, 2));
  EXPECT_THAT(cache.BlockTable(2), ElementsAre(0, 1, 3));
}

TEST(KvCache, KeepsSharedBlocksUntilTheLastSequenceReleasesThem) {
  KvCache cache({.num_blocks = 4, .block_size = 4});
  ASSERT_TRUE(cache.Reserve(1, 12).ok());
  ASSERT_EQ(cache.SharePrefix(1, 2, 8), 8);
  EXPECT_EQ(cache.BlocksFreedBy({1}), 1);
  EXPECT_EQ(cache.BlocksFreedBy({2}), 0);
  EXPECT_EQ(cache.BlocksFreedBy({1, 2}), 3);
  cache.Release(1);
  EXPECT_EQ(cache.num_free_blocks(), 2);
  EXPECT_THAT(cache.BlockTable(2), ElementsAre(0, 1));
  cache.Release(2);
  EXPECT_EQ(cache.num_free_blocks(), 4);
  cache.Release(2);
  EXPECT_EQ(cache.statistics().num_sequences, 0);
}

// Random operations beside a model that is plain: every sequence's table as it should look. A table
// grows by blocks that no other table has, and every block in no table is free.
class PlainTables {
 public:
  explicit PlainTables(KvCacheOptions options) : options_(options) {}

  int32_t NumFree() const {
    std::set<BlockId> used;
    for (const auto& [sequence, table] : tables) used.insert(table.begin(), table.end());
    return options_.num_blocks - static_cast<int32_t>(used.size());
  }

  // Takes over what `cache` added to `sequence`, having checked it.
  void Grow(const KvCache& cache, SequenceId sequence, int32_t num_positions) {
    std::set<BlockId> used;
    for (const auto& [other, table] : tables) used.insert(table.begin(), table.end());
    std::vector<BlockId>& table = tables[sequence];
    const absl::Span<const BlockId> actual = cache.BlockTable(sequence);
    const auto expected = std::max<size_t>(
        table.size(), (num_positions + options_.block_size - 1) / options_.block_size);
    ASSERT_EQ(actual.size(), expected);
    ASSERT_TRUE(std::equal(table.begin(), table.end(), actual.begin()));
    for (size_t i = table.size(); i < actual.size(); ++i) {
      ASSERT_TRUE(used.insert(actual[i]).second) << "block " << actual[i] << " is not free";
      table.push_back(actual[i]);
    }
    if (table.empty()) tables.erase(sequence);
  }

  std::map<SequenceId, std::vector<BlockId>> tables;

 private:
  KvCacheOptions options_;
};

void RunRandomOperations(uint32_t seed) {
  std::mt19937 random(seed);
  const auto pick = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  const KvCacheOptions options = {.num_blocks = pick(1, 40), .block_size = pick(1, 6)};
  KvCache cache(options);
  PlainTables plain(options);
  for (int operation = 0; operation < 400; ++operation) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed << ", operation " << operation);
    const auto sequence = static_cast<SequenceId>(pick(0, 7));
    const int32_t positions = pick(0, 60);
    switch (pick(0, 3)) {
      case 0:
      case 1: {
        const auto held = static_cast<int32_t>(cache.BlockTable(sequence).size());
        const bool fits = cache.BlocksFor(positions) - held <= plain.NumFree();
        ASSERT_EQ(cache.Reserve(sequence, positions).ok(), fits);
        ASSERT_NO_FATAL_FAILURE(plain.Grow(cache, sequence, fits ? positions : 0));
        break;
      }
      case 2:
        cache.Release(sequence);
        plain.tables.erase(sequence);
        break;
      case 3: {
        const auto to = static_cast<SequenceId>(pick(0, 7));
        if (plain.tables.contains(to)) break;
        const int32_t shared = cache.SharePrefix(sequence, to, positions);
        if (shared > 0) {
          const std::vector<BlockId>& from = plain.tables.at(sequence);
          plain.tables[to] = {from.begin(), from.begin() + shared / options.block_size};
        }
        ASSERT_LE(shared, positions);
        break;
      }
    }
    ASSERT_TRUE(cache.CheckIntegrity().ok()) << cache.CheckIntegrity();
    ASSERT_EQ(cache.num_free_blocks(), plain.NumFree());
    ASSERT_EQ(cache.statistics().num_sequences, std::ssize(plain.tables));
    for (const auto& [id, table] : plain.tables) {
      ASSERT_THAT(cache.BlockTable(id), ::testing::ElementsAreArray(table));
    }
  }
}

TEST(KvCache, AgreesWithPlainTablesUnderRandomOperations) {
  for (uint32_t seed = 1; seed <= 100; ++seed) {
    RunRandomOperations(seed);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace sluice
