// Random operations on a small cache beside a memory that records what is in every slot: nobody
// ever finds in his blocks what does not belong to his tokens, every block is accounted for, and
// bugs planted into the bookkeeping are found.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "orchestrator/kv_cache/kv_cache.h"
#include "tests/orchestrator/kv_cache/kv_cache_saboteur.h"

namespace sluice {
namespace {

class RandomCache {
 public:
  explicit RandomCache(uint32_t seed)
      : random_(seed),
        options_{.num_blocks = Pick(1, 24), .block_size = Pick(1, 5)},
        cache_(options_),
        memory_(static_cast<size_t>(options_.num_blocks) * options_.block_size, 0) {}

  void Run(int num_operations) {
    for (int operation = 0; operation < num_operations; ++operation) {
      SCOPED_TRACE(::testing::Message() << "operation " << operation);
      ASSERT_NO_FATAL_FAILURE(RandomOperation());
      ASSERT_NO_FATAL_FAILURE(Check());
    }
  }

  KvCache& cache() { return cache_; }
  int Pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }

  // Blocks in tables.
  std::vector<BlockId> UsedBlocks() const {
    std::set<BlockId> used;
    for (const auto& [id, sequence] : sequences_) {
      const auto table = cache_.BlockTable(id);
      used.insert(table.begin(), table.end());
    }
    return {used.begin(), used.end()};
  }
  // Of the cache itself, and of what it takes for the sequences' tokens.
  absl::Status CheckIntegrity() const {
    absl::Status status = cache_.CheckIntegrity();
    for (const auto& [id, sequence] : sequences_) {
      status.Update(cache_.CheckContents(id, sequence.tokens));
    }
    return status;
  }

  int64_t num_found = 0;
  int64_t num_copies = 0;
  int64_t num_evicted = 0;

 private:
  struct Sequence {
    int domain = 0;  // 0: none
    std::vector<TokenId> tokens;
    int computed = 0;
  };

  // What belongs into every slot of a sequence's positions.
  static std::vector<uint64_t> ContentsOf(const Sequence& sequence) {
    std::vector<uint64_t> contents;
    uint64_t hash = 77 + static_cast<uint64_t>(sequence.domain);
    for (const TokenId token : sequence.tokens) {
      hash = (hash ^ static_cast<uint64_t>(token + 1)) * 0x9e3779b97f4a7c15u;
      hash ^= hash >> 31;
      contents.push_back(hash);
    }
    return contents;
  }

  uint64_t& Slot(SequenceId id, int position) {
    const BlockId block = cache_.BlockTable(id).at(position / options_.block_size);
    return memory_.at(static_cast<size_t>(block) * options_.block_size +
                      position % options_.block_size);
  }

  void RandomOperation() {
    const int dice = Pick(1, 100);
    if (dice <= 25) return Begin();
    if (dice <= 70) return Write();
    if (dice <= 82) return Fork();
    if (dice <= 99) return Release();
    for (const auto& [id, sequence] : sequences_) cache_.Release(id);
    sequences_.clear();
    cache_.ForgetContents();
    std::fill(memory_.begin(), memory_.end(), 0);
  }

  SequenceId RandomId() { return static_cast<SequenceId>(Pick(0, 7)); }

  void Begin() {
    const SequenceId id = RandomId();
    if (sequences_.contains(id)) return;
    Sequence sequence = {.domain = Pick(0, 3), .tokens = std::vector<TokenId>(Pick(1, 30))};
    for (TokenId& token : sequence.tokens) token = Pick(1, 8) / 8;
    if (sequence.domain > 0) {
      const PrefixDomain domain = {
          .salt = std::string(sequence.domain, 'x'), .adapter = "", .length_like = sequence.domain};
      const int most = Pick(0, static_cast<int>(sequence.tokens.size()) - 1);
      sequence.computed = cache_.Begin(id, domain, sequence.tokens, most);
      ASSERT_LE(sequence.computed, most);
      num_found += sequence.computed;
    }
    sequences_[id] = std::move(sequence);
  }

  void Write() {
    const auto it = sequences_.find(RandomId());
    if (it == sequences_.end()) return;
    auto& [id, sequence] = *it;
    const int left = static_cast<int>(sequence.tokens.size()) - sequence.computed;
    const int end = sequence.computed + Pick(0, left);
    const int32_t missing = cache_.BlocksMissing(id, sequence.computed, end);
    const bool fits = missing <= cache_.num_available_blocks();
    const absl::StatusOr<Reservation> reservation = cache_.Reserve(id, sequence.computed, end);
    ASSERT_EQ(reservation.ok(), fits) << reservation.status();
    if (!fits) return;
    num_evicted += reservation->evicted_blocks;
    if (reservation->copy.has_value()) {
      const int size = options_.block_size;
      std::copy_n(memory_.begin() + reservation->copy->source * size, size,
                  memory_.begin() + reservation->copy->destination * size);
      ++num_copies;
    }
    const std::vector<uint64_t> contents = ContentsOf(sequence);
    for (int position = sequence.computed; position < end; ++position) {
      Slot(id, position) = contents[position];
    }
    sequence.computed = end;
    if (end > 0) cache_.MarkComputed(id, absl::MakeConstSpan(sequence.tokens).first(end));
  }

  void Fork() {
    const auto from = sequences_.find(RandomId());
    const SequenceId to = RandomId();
    if (from == sequences_.end() || sequences_.contains(to)) return;
    Sequence fork = from->second;
    fork.computed = Pick(0, fork.computed);
    fork.tokens.resize(fork.computed);
    const int more = Pick(0, 6);
    for (int i = 0; i < more; ++i) fork.tokens.push_back(Pick(1, 8) / 8);
    cache_.Fork(from->first, to, fork.computed);
    sequences_[to] = std::move(fork);
  }

  void Release() {
    const SequenceId id = RandomId();
    cache_.Release(id);
    sequences_.erase(id);
  }

  void Check() {
    const absl::Status intact = CheckIntegrity();
    ASSERT_TRUE(intact.ok()) << intact;
    ASSERT_EQ(cache_.num_available_blocks(), options_.num_blocks - std::ssize(UsedBlocks()));
    for (const auto& [id, sequence] : sequences_) {
      const std::vector<uint64_t> contents = ContentsOf(sequence);
      for (int position = 0; position < sequence.computed; ++position) {
        ASSERT_EQ(Slot(id, position), contents[position])
            << "position " << position << " of sequence " << id;
      }
    }
  }

  std::mt19937 random_;
  const KvCacheOptions options_;
  KvCache cache_;
  std::vector<uint64_t> memory_;  // by slot
  std::map<SequenceId, Sequence> sequences_;
};

TEST(RandomCache, EveryoneFindsWhatBelongsToHisTokens) {
  int64_t found = 0, copies = 0, evicted = 0;
  for (uint32_t seed = 1; seed <= 1000; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    RandomCache cache(seed);
    cache.Run(600);
    if (::testing::Test::HasFatalFailure()) return;
    found += cache.num_found;
    copies += cache.num_copies;
    evicted += cache.num_evicted;
  }
  EXPECT_GT(found, 20'000);
  EXPECT_GT(copies, 2'000);
  EXPECT_GT(evicted, 2'000);
}

// Each kind of bug, planted into a cache in use, is found at once.
TEST(RandomCache, PlantedBugsAreFound) {
  for (const PlantedBug bug : kPlantedBugs) {
    int num_planted = 0;
    for (uint32_t seed = 1; seed <= 100; ++seed) {
      SCOPED_TRACE(::testing::Message() << "bug " << static_cast<int>(bug) << ", seed " << seed);
      RandomCache random(seed);
      random.Run(100);
      if (::testing::Test::HasFatalFailure()) return;
      if (!KvCacheSaboteur(random.cache(), seed).Plant(bug)) continue;
      ++num_planted;
      EXPECT_EQ(random.CheckIntegrity().code(), absl::StatusCode::kInternal);
    }
    EXPECT_GE(num_planted, 10) << static_cast<int>(bug);
  }
}

}  // namespace
}  // namespace sluice
