// What the KV cache does with states: which a sequence holds, and which stay as snapshots.
#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "kernels/check.h"
#include "orchestrator/kv_cache/kv_cache.h"

namespace sluice {
namespace {

// A snapshot pays where it spares computing so many blocks again: 512 positions in blocks of 64, as
// many as a step has.
constexpr int32_t kBlocksThatPay = 8;

}  // namespace

int32_t KvCache::TrimToState(Table& table, int32_t num_positions) {
  if (!has_states() || table.blocks.empty()) return num_positions;
  while (!table.blocks.empty() && !states_.Has(table.blocks.back())) {
    LetGo(table.blocks.back());
    table.blocks.pop_back();
    table.tail.clear();
  }
  const auto num_blocks = static_cast<int32_t>(table.blocks.size());
  table.num_known = std::min(table.num_known, num_blocks);
  if (num_blocks > 0) {
    states_.Pin(table.blocks.back());
    table.states.push_back({.index = num_blocks - 1, .found = true});
  }
  return std::min(num_positions, num_blocks * options_.block_size);
}

bool KvCache::HoldsState(const Table& table, int32_t index) {
  return std::any_of(table.states.begin(), table.states.end(),
                     [index](const HeldState& held) { return held.index == index; });
}

// REQUIRES: a slot is available.
void KvCache::HoldState(Table& table, int32_t index) {
  states_.Attach(table.blocks[index]);
  const auto next = std::find_if(table.states.begin(), table.states.end(),
                                 [index](const HeldState& held) { return held.index > index; });
  table.states.insert(next, {.index = index});
}

bool KvCache::Pays(const Table& table, int32_t index) const {
  const int32_t from = index - kBlocksThatPay + 1;
  if (from < 0) return false;
  return std::none_of(table.blocks.begin() + from, table.blocks.begin() + index,
                      [this](BlockId block) { return states_.Has(block); });
}

int32_t KvCache::CountStatesMissing(SequenceId sequence, int32_t first, int32_t end) const {
  const auto it = tables_.find(sequence);
  if (it == tables_.end()) return 1;
  const Table& table = it->second;
  const int32_t last = BlockOf(end - 1);
  int32_t missing = HoldsState(table, last) ? 0 : 1;
  if (first % options_.block_size != 0) {
    // The last that needs a state takes it along.
    const auto copied = BlockToCopy(table, first, false);
    if (copied.has_value() && states_.pins(table.blocks[*copied]) > 1) ++missing;
  }
  const int32_t read = first == 0 ? -1 : BlockOf(first - 1);
  const auto spare =
      std::count_if(table.states.begin(), table.states.end(),
                    [=](const HeldState& held) { return held.index > read && held.index != last; });
  return std::max(0, missing - static_cast<int32_t>(spare));
}

// Those that steps that were lost, wrong drafts and deferred positions leave behind.
void KvCache::LetGoOfSpareStates(Table& table, int32_t first, int32_t end) {
  const int32_t read = first == 0 ? -1 : BlockOf(first - 1);
  std::erase_if(table.states, [&](const HeldState& held) {
    if (held.index <= read || held.index == BlockOf(end - 1)) return false;
    states_.UnpinToFree(table.blocks[held.index]);
    return true;
  });
}

void KvCache::ReserveStates(SequenceId sequence, int32_t first, int32_t end) {
  if (!has_states()) return;
  Table* const table = FindTable(sequence);
  SLUICE_CHECK(table != nullptr && first < end);
  const int32_t last = BlockOf(end - 1);
  const int32_t begin = first == 0 ? 0 : BlockOf(first - 1) + 1;
  LetGoOfSpareStates(*table, first, end);
  if (!HoldsState(*table, last)) HoldState(*table, last);
  const auto take = [&](int32_t index) {
    // Each running sequence may come to lack one.
    if (num_available_states() <= std::ssize(tables_) || HoldsState(*table, index)) return;
    HoldState(*table, index);
  };
  // The last whole block of the step, for others that begin alike and go on otherwise.
  if (end % options_.block_size != 0 && last - 1 >= begin) take(last - 1);
  for (int32_t index = begin; index < last; ++index) {
    if ((index + 1) % kBlocksThatPay == 0 || states_.num_free() > 0) take(index);
  }
}

std::vector<StateSlot> KvCache::StatesOf(SequenceId sequence, int32_t first, int32_t end) const {
  std::vector<StateSlot> slots;
  if (!has_states()) return slots;
  const Table& table = tables_.at(sequence);
  auto held = table.states.begin();
  for (int32_t index = first == 0 ? 0 : BlockOf(first - 1); index <= BlockOf(end - 1); ++index) {
    while (held != table.states.end() && held->index < index) ++held;
    SLUICE_CHECK(held != table.states.end());
    slots.push_back(states_.Of(table.blocks[held->index]));
  }
  return slots;
}

int32_t KvCache::FindPositionsWithState(SequenceId sequence, int32_t num_positions) const {
  const std::vector<HeldState>& states = tables_.at(sequence).states;
  const int32_t last = BlockOf(num_positions - 1);
  for (auto held = states.rbegin(); held != states.rend(); ++held) {
    if (held->index > last) continue;
    return std::min(num_positions, (held->index + 1) * options_.block_size);
  }
  return 0;
}

// The sequence needs the state no more.
void KvCache::LetGoOfState(const Table& table, const HeldState& held, bool ends) {
  const BlockId block = table.blocks[held.index];
  if (!index_.Contains(block)) return states_.UnpinToFree(block);
  const bool is_last = held.found || ends || Pays(table, held.index);
  states_.UnpinToKeep(block, is_last ? SnapshotOrder::kLast : SnapshotOrder::kFirst);
}

void KvCache::DropStatesBefore(Table& table, int32_t num_positions) {
  const int32_t last = BlockOf(num_positions - 1);
  const auto needed = std::find_if(table.states.begin(), table.states.end(),
                                   [last](const HeldState& held) { return held.index >= last; });
  for (auto held = table.states.begin(); held != needed; ++held) {
    LetGoOfState(table, *held, /*ends=*/false);
  }
  table.states.erase(table.states.begin(), needed);
}

// Of a sequence that ends, the last snapshot is kept longest: it may be gone on from.
void KvCache::LetGoOfAllStates(const Table& table) {
  if (!has_states()) return;
  for (const HeldState& held : table.states) LetGoOfState(table, held, /*ends=*/true);
  for (int32_t index = table.num_known - 1; index >= std::max(0, table.num_known - kBlocksThatPay);
       --index) {
    if (!states_.Has(table.blocks[index])) continue;
    return states_.Touch(table.blocks[index]);
  }
}

// Gives the copy of a block the state of the block, where the sequence reads it.
std::optional<StateCopy> KvCache::CopyState(Table& table, int32_t index, BlockId source,
                                            BlockId destination, bool is_read) {
  const auto held = std::find_if(table.states.begin(), table.states.end(),
                                 [index](const HeldState& each) { return each.index == index; });
  if (held == table.states.end()) return std::nullopt;
  if (!is_read) {
    LetGoOfState(table, *held, /*ends=*/false);
    table.states.erase(held);
    return std::nullopt;
  }
  held->found = false;
  if (num_available_states() == 0) {
    states_.Move(source, destination);  // nobody else needs it
    return std::nullopt;
  }
  states_.Attach(destination);
  const StateCopy copy = {.source = states_.Of(source), .destination = states_.Of(destination)};
  if (index_.Contains(source)) {
    states_.UnpinToKeep(source, SnapshotOrder::kLast);
  } else {
    states_.UnpinToFree(source);
  }
  return copy;
}

// The sequence goes on with the block that was known first, and so with its state.
bool KvCache::MergeStates(Table& table, int32_t index, BlockId known, int32_t num_positions) {
  const auto held = std::find_if(table.states.begin(), table.states.end(),
                                 [index](const HeldState& each) { return each.index == index; });
  if (held == table.states.end()) return true;
  const BlockId own = table.blocks[index];
  if (states_.Has(known)) {
    states_.Pin(known);
    states_.UnpinToFree(own);
  } else if (states_.pins(own) == 1) {
    states_.Move(own, known);
  } else if (index == BlockOf(num_positions - 1)) {
    return false;
  } else {
    states_.UnpinToFree(own);
    table.states.erase(held);
  }
  return true;
}

int32_t KvCache::StatesFreedBy(absl::Span<const SequenceId> sequences, SequenceId writer,
                               int32_t first) const {
  if (!has_states()) return 0;
  absl::flat_hash_map<BlockId, int32_t> given_back;
  int32_t freed = 0;
  for (const SequenceId sequence : sequences) {
    const auto it = tables_.find(sequence);
    if (it == tables_.end()) continue;
    for (const HeldState& held : it->second.states) {
      const BlockId block = it->second.blocks[held.index];
      if (++given_back[block] == states_.pins(block)) ++freed;
    }
  }
  const auto own = tables_.find(writer);
  if (own == tables_.end() || first % options_.block_size == 0) return freed;
  const auto copied = BlockToCopy(own->second, first, false);
  if (!copied.has_value()) return freed;
  const auto given = given_back.find(own->second.blocks[*copied]);
  if (given != given_back.end() && given->second + 1 == states_.pins(given->first)) ++freed;
  return freed;
}

absl::Status KvCache::CheckStates(SequenceId sequence, int32_t num_computed,
                                  int32_t num_planned) const {
  if (!has_states()) return absl::OkStatus();
  const auto it = tables_.find(sequence);
  if (it == tables_.end()) return absl::OkStatus();
  for (const int32_t num_positions : {num_computed, num_planned}) {
    if (num_positions == 0 || HoldsState(it->second, BlockOf(num_positions - 1))) continue;
    return absl::InternalError(
        absl::StrCat("sequence ", sequence, " lacks the state of position ", num_positions - 1));
  }
  return absl::OkStatus();
}

absl::Status KvCache::CheckSlots() const {
  std::vector<int32_t> pins(pool_.num_total(), 0);
  for (const auto& [sequence, table] : tables_) {
    int32_t before = -1;
    for (const HeldState& held : table.states) {
      if (held.index <= before || held.index >= std::ssize(table.blocks)) {
        return absl::InternalError(absl::StrCat("sequence ", sequence, " holds the state of block ",
                                                held.index, " of ", table.blocks.size(),
                                                ", after that of ", before));
      }
      before = held.index;
      ++pins[table.blocks[held.index]];
    }
  }
  if (absl::Status status = states_.CheckIntegrity(pins); !status.ok()) return status;
  if (!has_states()) return absl::OkStatus();
  for (BlockId block = 0; block < pool_.num_total(); ++block) {
    if (!states_.Has(block) || pins[block] > 0 || index_.Contains(block)) continue;
    return absl::InternalError(
        absl::StrCat("block ", block, " has a snapshot and is not known by its tokens"));
  }
  return absl::OkStatus();
}

}  // namespace sluice
