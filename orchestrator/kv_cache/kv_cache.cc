#include "orchestrator/kv_cache/kv_cache.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/check.h"

namespace sluice {

absl::Status Validate(const KvCacheOptions& options) {
  if (options.num_blocks < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("num_blocks is ", options.num_blocks, "; a KV cache needs at least 1 block"));
  }
  if (options.block_size < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("block_size is ", options.block_size, "; a block has at least 1 position"));
  }
  if (options.num_state_slots < 0 || options.num_state_slots == 1) {
    return absl::InvalidArgumentError(absl::StrCat("num_state_slots is ", options.num_state_slots,
                                                   "; accepted: 0, or at least 2"));
  }
  return absl::OkStatus();
}

KvCache::KvCache(const KvCacheOptions& options)
    : options_(options),
      pool_(options.num_blocks),
      index_(options.num_blocks, options.block_size, options.recorder),
      states_(options.num_state_slots, options.num_blocks),
      given_back_(options.num_blocks) {
  SLUICE_CHECK(Validate(options).ok());
  if (options_.recorder == nullptr) return;
  options_.recorder->OnNewCache(options_.model_key, options_.block_size, options_.num_blocks);
}

// ---- Blocks ----

void KvCache::Hold(BlockId block) {
  if (index_.Contains(block) && index_.IsIdle(block)) index_.MakeUsed(block);
  pool_.AddReference(block);
  if (NumHolders(block) == 2) ++num_shared_;
}

void KvCache::LetGo(BlockId block) {
  const int32_t holders = NumHolders(block) - 1;
  pool_.Release(block);
  if (holders == 1) --num_shared_;
  if (holders == 0 && index_.Contains(block)) index_.MakeIdle(block);
}

BlockId KvCache::TakeBlock(Reservation& reservation) {
  if (pool_.num_free() == 0) {
    const BlockId evicted = index_.Evict();
    states_.Drop(evicted);
    pool_.Release(evicted);
    ++reservation.evicted_blocks;
    ++evicted_blocks_;
  }
  return *pool_.Allocate();
}

// ---- Tables ----

KvCache::Table* KvCache::FindTable(SequenceId sequence) {
  if (found_ != nullptr && found_for_ == sequence) return found_;
  const auto it = tables_.find(sequence);
  found_ = it == tables_.end() ? nullptr : &it->second;
  found_for_ = sequence;
  return found_;
}

PrefixIndex::Place KvCache::EndOfKnown(const Table& table) const {
  return table.num_known == 0 ? table.root : index_.PlaceOf(table.blocks[table.num_known - 1]);
}

PrefixKey KvCache::KeyOfKnown(const Table& table) const {
  if (table.num_known > 0) return index_.KeyOf(table.blocks[table.num_known - 1]);
  const PrefixDomain& domain = index_.DomainOf(table.root);
  return DomainKey(options_.model_key, domain.salt, domain.adapter, domain.length_like);
}

PrefixKey KvCache::KeyOf(SequenceId sequence) const {
  const auto it = tables_.find(sequence);
  if (it == tables_.end() || it->second.root == 0) return 0;
  return KeyOfKnown(it->second);
}

int32_t KvCache::Begin(SequenceId sequence, const PrefixDomain& domain,
                       absl::Span<const TokenId> tokens, int32_t most) {
  SLUICE_CHECK(!tables_.contains(sequence) && 0 <= most && most <= std::ssize(tokens));
  Table table;
  table.root = index_.AcquireRoot(domain);
  const int32_t size = options_.block_size;
  int32_t found = 0;
  while (found < most && found + size <= std::ssize(tokens)) {
    const std::optional<BlockId> block =
        index_.Find(EndOfKnown(table), tokens.subspan(found, size));
    if (!block.has_value()) break;
    Hold(*block);
    table.blocks.push_back(*block);
    ++table.num_known;
    found += size;
  }
  if (found > most) {  // it goes on inside the last block
    found = most;
    --table.num_known;
    const auto known = int64_t{table.num_known} * size;
    table.tail.assign(tokens.begin() + known, tokens.begin() + most);
  } else if (found < most) {
    found += BeginWithTail(table, tokens.subspan(found), most - found);
  }
  found = TrimToState(table, found);
  hit_positions_ += found;
  queried_positions_ += most;
  found_ = nullptr;
  tables_.emplace(sequence, std::move(table));
  return found;
}

int32_t KvCache::CountKnown(const PrefixDomain& domain, absl::Span<const TokenId> tokens) const {
  const std::optional<PrefixIndex::Place> root = index_.RootOf(domain);
  if (!root.has_value()) return 0;
  PrefixIndex::Place place = *root;
  const auto size = static_cast<size_t>(options_.block_size);
  size_t known = 0;
  for (size_t end = size; end <= tokens.size(); end += size) {
    const std::optional<BlockId> block = index_.Find(place, tokens.subspan(end - size, size));
    if (!block.has_value()) break;
    place = index_.PlaceOf(*block);
    if (!has_states() || states_.Has(*block)) known = end;
  }
  return static_cast<int32_t>(known);
}

// Goes on with the block that another sequence is filling, as far as that one's tokens are those of
// `rest`. Returns the positions.
int32_t KvCache::BeginWithTail(Table& table, absl::Span<const TokenId> rest, int32_t most) {
  const auto owner = tails_.find(EndOfKnown(table));
  if (owner == tails_.end()) return 0;
  Table& other = tables_.at(owner->second);
  const auto limit = std::min<ptrdiff_t>(most, std::ssize(other.tail));
  const auto end = std::mismatch(rest.begin(), rest.begin() + limit, other.tail.begin()).first;
  const auto found = static_cast<int32_t>(end - rest.begin());
  if (found == 0) return 0;
  const BlockId block = other.blocks[other.num_known];
  other.own = -1;
  Hold(block);
  table.blocks.push_back(block);
  table.tail.assign(rest.begin(), end);
  return found;
}

int32_t KvCache::Fork(SequenceId from, SequenceId to, int32_t num_positions) {
  SLUICE_CHECK(!tables_.contains(to) && num_positions >= 0);
  const auto it = tables_.find(from);
  if (it == tables_.end()) {
    SLUICE_CHECK(num_positions == 0);
    return 0;
  }
  Table& parent = it->second;
  parent.own = -1;
  const int32_t num_blocks = BlocksFor(num_positions);
  SLUICE_CHECK(num_blocks <= std::ssize(parent.blocks));
  Table table;
  table.blocks.assign(parent.blocks.begin(), parent.blocks.begin() + num_blocks);
  for (const BlockId block : table.blocks) Hold(block);
  table.root = parent.root;
  if (table.root != 0) index_.HoldRoot(table.root);
  table.num_known = std::min(parent.num_known, num_positions / options_.block_size);
  num_positions = TrimToState(table, num_positions);
  found_ = nullptr;
  tables_.emplace(to, std::move(table));
  return num_positions;
}

std::optional<size_t> KvCache::BlockToCopy(const Table& table, int32_t first,
                                           bool only_if_held) const {
  const auto index = static_cast<size_t>(first / options_.block_size);
  if (index >= table.blocks.size()) return std::nullopt;
  const BlockId block = table.blocks[index];
  const bool others = NumHolders(block) > 1 || (!only_if_held && index_.Contains(block));
  return others ? std::optional<size_t>(index) : std::nullopt;
}

bool KvCache::IsReserved(SequenceId sequence, int32_t first, int32_t num_positions) {
  Table* const table = FindTable(sequence);
  if (table == nullptr || BlocksFor(num_positions) > std::ssize(table->blocks)) return false;
  const int32_t index = first / options_.block_size;
  if (StatesMissing(sequence, first, num_positions) > 0) return false;
  if (table->own == index) return true;
  if (BlockToCopy(*table, first, false).has_value()) return false;
  table->own = index;
  return true;
}

int32_t KvCache::BlocksMissing(SequenceId sequence, int32_t first, int32_t num_positions) const {
  const auto it = tables_.find(sequence);
  if (it == tables_.end()) return BlocksFor(num_positions);
  const auto held = static_cast<int32_t>(it->second.blocks.size());
  const bool copies = first < num_positions && BlockToCopy(it->second, first, true).has_value();
  return std::max(BlocksFor(num_positions) - held, 0) + (copies ? 1 : 0);
}

absl::StatusOr<Reservation> KvCache::Reserve(SequenceId sequence, int32_t first,
                                             int32_t num_positions) {
  const int32_t missing = BlocksMissing(sequence, first, num_positions);
  if (missing > num_available_blocks()) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "sequence ", sequence, " needs ", missing, " more blocks for ", num_positions,
        " positions; ", num_available_blocks(), " of ", num_total_blocks(), " are available"));
  }
  if (StatesMissing(sequence, first, num_positions) > num_available_states()) {
    return absl::ResourceExhaustedError(absl::StrCat("sequence ", sequence,
                                                     " needs a slot for its state; none of ",
                                                     num_total_states(), " is available"));
  }
  Reservation reservation;
  if (num_positions == 0) return reservation;
  found_ = nullptr;
  Table& table = tables_[sequence];
  SLUICE_CHECK(0 <= first && first <= num_positions &&
               BlocksFor(first) <= std::ssize(table.blocks));
  const auto held = static_cast<int32_t>(table.blocks.size());
  for (int32_t i = held; i < BlocksFor(num_positions); ++i) {
    table.blocks.push_back(TakeBlock(reservation));
  }
  const auto shared = BlockToCopy(table, first, false);
  if (!shared.has_value() || first == num_positions) return reservation;
  LetGoOfSpareStates(table, first, num_positions);
  BlockId& block = table.blocks[*shared];
  if (NumHolders(block) == 1 && num_available_blocks() == 0) {
    index_.Remove(block);  // nobody else has it, and there is no block to copy it to
    pool_.Release(block);
    return reservation;
  }
  reservation.copy = {.source = block, .destination = TakeBlock(reservation)};
  reservation.state_copy =
      CopyState(table, static_cast<int32_t>(*shared), block, reservation.copy->destination,
                first % options_.block_size != 0);
  LetGo(block);
  block = reservation.copy->destination;
  table.num_told = std::min(table.num_told, static_cast<int32_t>(*shared));
  ++copied_blocks_;
  return reservation;
}

void KvCache::MarkComputed(SequenceId sequence, absl::Span<const TokenId> tokens) {
  Table* const found = FindTable(sequence);
  SLUICE_CHECK(found != nullptr);
  Table& table = *found;
  const auto num_positions = static_cast<int32_t>(tokens.size());
  if (table.root == 0) return LetGoOfStatesBefore(table, num_positions);
  const int32_t num_full = num_positions / options_.block_size;
  if (table.num_known < num_full) {
    WithdrawTail(sequence, table);
    table.tail.clear();
  }
  while (table.num_known < num_full) {
    const auto first = static_cast<size_t>(table.num_known) * options_.block_size;
    if (!LearnNextBlock(table, tokens.subspan(first, options_.block_size), num_positions)) {
      return LetGoOfStatesBefore(table, num_positions);
    }
  }
  LetGoOfStatesBefore(table, num_positions);
  const bool had_tail = !table.tail.empty();
  const auto told = static_cast<size_t>(table.num_known) * options_.block_size + table.tail.size();
  if (told >= tokens.size()) return;
  for (const TokenId token : tokens.subspan(told)) table.tail.push_back(token);
  if (!had_tail) tails_.try_emplace(EndOfKnown(table), sequence);
}

bool KvCache::LearnNextBlock(Table& table, absl::Span<const TokenId> tokens,
                             int32_t num_positions) {
  BlockId& block = table.blocks[table.num_known];
  const PrefixIndex::Place parent = EndOfKnown(table);
  const bool was_known = index_.Contains(block);
  const BlockId known = index_.FindOrInsert(block, parent, tokens);
  if (known != block) {
    if (!MergeStates(table, table.num_known, known, num_positions)) return false;
    Hold(known);
    LetGo(block);
    block = known;
    table.num_told = std::min(table.num_told, table.num_known);
  } else if (!was_known) {
    pool_.AddReference(block);
    const PrefixKey before = KeyOfKnown(table);
    index_.Name(block, BlockKey(before, tokens), before, table.num_known);
  }
  if (table.own == table.num_known) table.own = -1;
  ++table.num_known;
  return true;
}

void KvCache::WithdrawTail(SequenceId sequence, const Table& table) {
  if (table.root == 0) return;
  const auto it = tails_.find(EndOfKnown(table));
  if (it != tails_.end() && it->second == sequence) tails_.erase(it);
}

void KvCache::Release(SequenceId sequence) {
  const auto it = tables_.find(sequence);
  if (it == tables_.end()) return;
  const Table table = std::move(it->second);
  WithdrawTail(sequence, table);
  found_ = nullptr;
  tables_.erase(it);
  LetGoOfAllStates(table);
  // Backwards: the last block of a path becomes idle, and is evicted, before those it follows; and
  // free blocks are handed out again in position order.
  for (auto block = table.blocks.rbegin(); block != table.blocks.rend(); ++block) LetGo(*block);
  if (table.root != 0) index_.ReleaseRoot(table.root);
  if (table.told) ended_tables_.push_back(sequence);
}

void KvCache::ForgetContents() {
  SLUICE_CHECK(tables_.empty());
  while (index_.num_idle() > 0) {
    const BlockId evicted = index_.Evict();
    states_.Drop(evicted);
    pool_.Release(evicted);
  }
  ForgetToldTables();
}

void KvCache::Resize(int32_t num_blocks, int32_t num_state_slots) {
  ForgetContents();
  options_.num_blocks = num_blocks;
  options_.num_state_slots = num_state_slots;
  SLUICE_CHECK(Validate(options_).ok());
  pool_ = BlockPool(num_blocks);
  index_ = PrefixIndex(num_blocks, options_.block_size, options_.recorder);
  states_ = StateSlots(num_state_slots, num_blocks);
  given_back_.assign(num_blocks, 0);
  if (options_.recorder == nullptr) return;
  options_.recorder->OnNewCache(options_.model_key, options_.block_size, num_blocks);
}

// ---- What there is ----

absl::Span<const BlockId> KvCache::BlockTable(SequenceId sequence) const {
  const auto it = tables_.find(sequence);
  if (it == tables_.end()) return {};
  return it->second.blocks;
}

TableChange KvCache::TakeTableChange(SequenceId sequence) {
  Table* const table = FindTable(sequence);
  SLUICE_CHECK(table != nullptr);
  const int32_t first = std::exchange(table->num_told, static_cast<int32_t>(table->blocks.size()));
  table->told = true;
  return {.first_block = first, .blocks = absl::MakeConstSpan(table->blocks).subspan(first)};
}

void KvCache::ForgetToldTables() {
  ended_tables_.clear();
  for (auto& [sequence, table] : tables_) {
    table.num_told = 0;
    table.told = false;
  }
}

SequenceBlocks KvCache::BlocksOf(SequenceId sequence) const {
  SequenceBlocks result;
  for (const BlockId block : BlockTable(sequence)) {
    ++result.held;
    result.shared += NumHolders(block) > 1;
  }
  const auto it = tables_.find(sequence);
  if (it != tables_.end()) result.states = static_cast<int32_t>(it->second.states.size());
  return result;
}

int32_t KvCache::BlocksFreedBy(absl::Span<const SequenceId> sequences, SequenceId writer,
                               int32_t first) const {
  int32_t freed = 0;
  for (const SequenceId sequence : sequences) {
    for (const BlockId block : BlockTable(sequence)) {
      if (++given_back_[block] == NumHolders(block)) ++freed;
    }
  }
  const absl::Span<const BlockId> own = BlockTable(writer);
  const auto place = static_cast<size_t>(first / options_.block_size);
  if (place < own.size() && given_back_[own[place]] > 0 &&
      given_back_[own[place]] + 1 == NumHolders(own[place])) {
    ++freed;
  }
  for (const SequenceId sequence : sequences) {
    for (const BlockId block : BlockTable(sequence)) given_back_[block] = 0;
  }
  return freed;
}

int32_t KvCache::BlocksFor(int32_t num_positions) const {
  SLUICE_CHECK(num_positions >= 0);
  // Not (n + size - 1) / size, which overflows near the largest int.
  return num_positions / options_.block_size + (num_positions % options_.block_size != 0);
}

KvCacheStatistics KvCache::statistics() const {
  return {.block_size = options_.block_size,
          .total_blocks = pool_.num_total(),
          .used_blocks = pool_.num_used() - index_.num_idle(),
          .cached_blocks = index_.num_idle(),
          .free_blocks = pool_.num_free(),
          .shared_blocks = num_shared_,
          .num_sequences = static_cast<int32_t>(tables_.size()),
          .hit_positions = hit_positions_,
          .queried_positions = queried_positions_,
          .copied_blocks = copied_blocks_,
          .evicted_blocks = evicted_blocks_,
          .total_states = states_.num_total(),
          .used_states = states_.num_total() - states_.num_available(),
          .cached_states = states_.num_idle(),
          .evicted_states = states_.num_evicted()};
}

}  // namespace sluice
