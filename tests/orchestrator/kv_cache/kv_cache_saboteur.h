// Plants bugs into the books of a KV cache, where only friends can, to see them found.
#pragma once

#include <algorithm>
#include <random>
#include <vector>

#include "orchestrator/kv_cache/kv_cache.h"

namespace sluice {

enum class PlantedBug {
  kLostReference,    // a block in use counts one holder too few, and will be handed out too early
  kLeakedReference,  // a block in use counts one holder too many, and will never be free again
  kDoubleFree,       // a block in use is in the free list
  kFreedTwice,       // a free block is in the free list twice
  kLostBlock,        // a free block is in no list
  kStolenBlock,      // a table names a block of another one in place of its own
  kStolenCached,     // a table names a cached block in place of its own
  kForgottenIdle,    // a cached block is not among those that may be evicted
  kMislabelled,      // a block is known by a token that it does not hold
  kLyingTail,        // a block that is being filled is offered with a token that it does not hold
  kLostRoot,         // a domain counts one holder too few
  kLeakedRoot,       // a domain counts one holder too many, and will never be let go
  kLostPin,          // a state that a sequence needs counts one of them too few
  kLeakedPin,        // and one too many: its slot will never be free again
  kLostSlot,         // a free slot is in no list
  kForgottenState,   // a sequence does not know that it needs a state
  kSwappedStates,    // two blocks have each other's states
};

inline constexpr PlantedBug kPlantedBugs[] = {
    PlantedBug::kLostReference, PlantedBug::kLeakedReference, PlantedBug::kDoubleFree,
    PlantedBug::kFreedTwice,    PlantedBug::kLostBlock,       PlantedBug::kStolenBlock,
    PlantedBug::kStolenCached,  PlantedBug::kForgottenIdle,   PlantedBug::kMislabelled,
    PlantedBug::kLyingTail,     PlantedBug::kLostRoot,        PlantedBug::kLeakedRoot};
// Of caches with slots for states.
inline constexpr PlantedBug kPlantedStateBugs[] = {
    PlantedBug::kLostPin, PlantedBug::kLeakedPin, PlantedBug::kLostSlot,
    PlantedBug::kForgottenState, PlantedBug::kSwappedStates};

class KvCacheSaboteur {
 public:
  KvCacheSaboteur(const KvCache& cache, uint32_t seed)
      : cache_(const_cast<KvCache&>(cache)), random_(seed) {}

  // Somewhere; false where the cache has no place for such a bug.
  bool Plant(PlantedBug bug) {
    switch (bug) {
      case PlantedBug::kLostReference:
        return With(Used(), [&](BlockId block) { --cache_.pool_.references_[block]; });
      case PlantedBug::kLeakedReference:
        return With(Used(), [&](BlockId block) { ++cache_.pool_.references_[block]; });
      case PlantedBug::kDoubleFree:
        return With(Used(), [&](BlockId block) { cache_.pool_.free_.push_back(block); });
      case PlantedBug::kFreedTwice:
        return With(cache_.pool_.free_,
                    [&](BlockId block) { cache_.pool_.free_.push_back(block); });
      case PlantedBug::kLostBlock:
        return With(cache_.pool_.free_,
                    [&](BlockId block) { std::erase(cache_.pool_.free_, block); });
      case PlantedBug::kStolenBlock:
        return Steal(Used());
      case PlantedBug::kStolenCached:
        return Steal(Cached());
      case PlantedBug::kForgottenIdle:
        return With(Cached(), [&](BlockId block) { cache_.index_.nodes_[block].idle = false; });
      case PlantedBug::kMislabelled:
        return With(Known(), [&](BlockId block) {
          ++cache_.index_.tokens_[static_cast<size_t>(block) * cache_.block_size()];
        });
      case PlantedBug::kLyingTail:
        return With(WithTails(),
                    [&](SequenceId sequence) { ++cache_.tables_.at(sequence).tail.back(); });
      case PlantedBug::kLostRoot:
        return HoldARoot(-1);
      case PlantedBug::kLeakedRoot:
        return HoldARoot(1);
      case PlantedBug::kLostPin:
        return With(WithStates(), [&](BlockId block) { --SlotOf(block).pins; });
      case PlantedBug::kLeakedPin:
        return With(WithStates(), [&](BlockId block) { ++SlotOf(block).pins; });
      case PlantedBug::kLostSlot:
        return With(cache_.states_.free_,
                    [&](StateSlot slot) { std::erase(cache_.states_.free_, slot); });
      case PlantedBug::kForgottenState:
        return With(Holders(true),
                    [&](SequenceId sequence) { cache_.tables_.at(sequence).states.pop_back(); });
      case PlantedBug::kSwappedStates: {
        const std::vector<BlockId> blocks = WithStates();
        if (blocks.size() < 2) return false;
        std::swap(cache_.states_.slot_of_[blocks[0]], cache_.states_.slot_of_[blocks[1]]);
        return true;
      }
    }
    return false;
  }

 private:
  template <class Value, class Do>
  bool With(const std::vector<Value>& values, Do plant) {
    if (values.empty()) return false;
    plant(Value(Choose(values)));
    return true;
  }
  template <class Value>
  const Value& Choose(const std::vector<Value>& values) {
    return values[std::uniform_int_distribution<size_t>(0, values.size() - 1)(random_)];
  }

  bool Steal(std::vector<BlockId> blocks) {
    const std::vector<SequenceId> holders = Holders();
    if (holders.empty()) return false;
    std::vector<BlockId>& own = cache_.tables_.at(Choose(holders)).blocks;
    std::erase_if(blocks, [&](BlockId block) { return std::ranges::count(own, block) > 0; });
    BlockId& place = own[std::uniform_int_distribution<size_t>(0, own.size() - 1)(random_)];
    return With(blocks, [&](BlockId block) { place = block; });
  }

  bool HoldARoot(int64_t more) {
    std::vector<PrefixIndex::Place> roots;
    for (const auto& [place, domain] : cache_.index_.domains_) roots.push_back(place);
    std::ranges::sort(roots);
    return With(roots, [&](PrefixIndex::Place root) {
      cache_.index_.roots_.at(*cache_.index_.domains_.at(root)).holders += more;
    });
  }

  // In an order that does not depend on that of hash maps, so that a seed can be had again.
  std::vector<SequenceId> Holders(bool of_states = false) const {
    std::vector<SequenceId> holders;
    for (const auto& [sequence, table] : cache_.tables_) {
      if (of_states ? !table.states.empty() : !table.blocks.empty()) holders.push_back(sequence);
    }
    std::ranges::sort(holders);
    return holders;
  }
  std::vector<SequenceId> WithTails() const {
    std::vector<SequenceId> result = Holders();
    std::erase_if(result, [&](SequenceId id) { return cache_.tables_.at(id).tail.empty(); });
    return result;
  }
  StateSlots::Slot& SlotOf(BlockId block) const {
    return cache_.states_.slots_[cache_.states_.Of(block)];
  }
  // Blocks whose states sequences need.
  std::vector<BlockId> WithStates() const {
    std::vector<BlockId> blocks = Used();
    std::erase_if(blocks, [&](BlockId block) {
      return !cache_.states_.Has(block) || cache_.states_.pins(block) == 0;
    });
    return blocks;
  }
  std::vector<BlockId> Known() const {
    std::vector<BlockId> known;
    for (BlockId block = 0; block < cache_.num_total_blocks(); ++block) {
      if (cache_.index_.Contains(block)) known.push_back(block);
    }
    return known;
  }
  std::vector<BlockId> Cached() const {
    std::vector<BlockId> cached = Known();
    std::erase_if(cached, [&](BlockId block) { return !cache_.index_.IsIdle(block); });
    return cached;
  }
  std::vector<BlockId> Used() const {
    std::vector<BlockId> used;
    for (const auto& [sequence, table] : cache_.tables_) {
      used.insert(used.end(), table.blocks.begin(), table.blocks.end());
    }
    std::ranges::sort(used);
    used.erase(std::unique(used.begin(), used.end()), used.end());
    return used;
  }

  KvCache& cache_;
  std::mt19937 random_;
};

}  // namespace sluice
