// The KV cache as bookkeeping: which blocks hold the keys and values of which sequence's positions.
// Position p of a sequence lives in slot p % block_size of block BlockTable(sequence)[p /
// block_size]. Shards obey these tables; nothing here touches memory or arithmetic.
//
// A block may be in several tables: after Fork, and where sequences begin with the same tokens
// (Kwon et al. 2023). It is written through one table only: Reserve gives a sequence a block of its
// own before it writes into a shared one, and names the copy that the shards have to make. Since
// keys and values are a function of the tokens before them, whoever comes to a block by its tokens
// finds the bits that it would have computed.
//
// Full blocks stay known by their tokens (prefix_index.h), also when no sequence has them any more:
// they are cached until their place is needed, the least recently used first. Cached blocks count
// as available, like free ones.
//
// What is shared must have been computed: the caller says so with MarkComputed, when the step that
// computes it has ended. A released block may be handed out at once, even while a step that writes
// it is under way: every stage executes steps in the order they were planned, so that the old
// writes come before the new owner's.
//
// Models with recurrent layers have states besides (docs/decisions/058): the slot of a block holds
// what a sequence needs to compute positions in the block and the first one behind it. There are
// fewer slots than blocks. A sequence holds the slot of the last position it has computed and those
// of steps in flight; others stay with known blocks as snapshots, until their slots are needed. What
// is found by its tokens ends in a block with a slot.
//
// Operations take time in the number of blocks they add, drop or look up, not in the size of the
// pool. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "orchestrator/kv_cache/block_pool.h"
#include "orchestrator/kv_cache/kv_recorder.h"
#include "orchestrator/kv_cache/prefix_index.h"
#include "orchestrator/kv_cache/state_slots.h"
#include "orchestrator/kv_cache/types.h"
#include "services/common/prefix_key.h"

namespace sluice {

struct KvCacheOptions {
  int32_t num_blocks = 0;   // at least 1
  int32_t block_size = 16;  // positions in a block, at least 1
  // Slots for states: at least 2, or 0 of models that have none.
  int32_t num_state_slots = 0;
  // What the keys of all blocks begin with (services/common/prefix_key.h).
  PrefixKey model_key = 0;
  KvRecorder* recorder = nullptr;  // borrowed; null: nothing is recorded
};

// OK, or INVALID_ARGUMENT naming the field and its value.
absl::Status Validate(const KvCacheOptions& options);

struct KvCacheStatistics {
  int32_t block_size = 0;
  int32_t total_blocks = 0;        // used + cached + free
  int32_t used_blocks = 0;         // in tables, each counted once
  int32_t cached_blocks = 0;       // in no table, known by their tokens
  int32_t free_blocks = 0;         // hold nothing of use
  int32_t shared_blocks = 0;       // those of used_blocks that several tables have
  int32_t num_sequences = 0;       // sequences that hold blocks
  uint64_t hit_positions = 0;      // found by their tokens instead of computed, ever
  uint64_t queried_positions = 0;  // looked for by their tokens, found or not, ever
  uint64_t copied_blocks = 0;
  uint64_t evicted_blocks = 0;
  int32_t total_states = 0;   // slots: used + cached + free
  int32_t used_states = 0;    // needed by sequences, each counted once
  int32_t cached_states = 0;  // snapshots
  uint64_t evicted_states = 0;
};

// What Reserve did.
struct Reservation {
  std::optional<BlockCopy> copy;        // to be made before anything is written
  std::optional<StateCopy> state_copy;  // likewise
  int32_t evicted_blocks = 0;           // cached blocks that gave way
};

// What the shards are to change in their copy of a table.
struct TableChange {
  int32_t first_block = 0;           // those before it they have
  absl::Span<const BlockId> blocks;  // the table from there on
};

// The blocks of one sequence, as its ledger shows them.
struct SequenceBlocks {
  int32_t held = 0;
  int32_t shared = 0;  // of them, those that other sequences have too
  int32_t states = 0;  // slots that it needs
};

class KvCache {
 public:
  // REQUIRES: Validate(options).ok().
  explicit KvCache(const KvCacheOptions& options);

  // Begins the table of `sequence` with blocks that hold the first of `tokens`, computed earlier in
  // `domain`; MarkComputed will make its own known there. Returns how many positions it found, at
  // most `most`; the sequence goes on writing after them. The last of its blocks may be one that
  // another sequence is still filling. Never lacks blocks.
  // REQUIRES: `sequence` holds no blocks; 0 <= most <= tokens.size().
  int32_t Begin(SequenceId sequence, const PrefixDomain& domain, absl::Span<const TokenId> tokens,
                int32_t most);

  // The key of the block that has the last known position of `sequence`; that of its domain where none
  // has, and 0 where it holds no blocks or shares nothing by its tokens.
  PrefixKey KeyOf(SequenceId sequence) const;

  // Leading ones of `tokens` in full blocks that Begin would find: up to the last with a state,
  // of models that have states.
  int32_t CountKnown(const PrefixDomain& domain, absl::Span<const TokenId> tokens) const;

  // Lets `to` have the positions [0, num_positions) of `from`: all blocks that hold them, the last
  // one in part where num_positions ends inside it. Of models with states it may be fewer: up to the
  // end of the last block with a state. Returns how many. Never lacks blocks.
  // REQUIRES: `to` holds no blocks; `from` has computed them.
  int32_t Fork(SequenceId from, SequenceId to, int32_t num_positions);

  // Makes slots for positions [0, num_positions) of `sequence`, keeping those it has; never
  // shrinks. Those from `first` on may then be written. All or nothing: RESOURCE_EXHAUSTED, with
  // nothing changed, when fewer than BlocksMissing blocks are available, or no slot for the state of
  // a block that is copied.
  // REQUIRES: 0 <= first <= num_positions, and [0, first) lie in blocks that it has.
  absl::StatusOr<Reservation> Reserve(SequenceId sequence, int32_t first, int32_t num_positions);

  // Reserve would change nothing: the common case of a token in a block that its sequence has begun.
  bool IsReserved(SequenceId sequence, int32_t first, int32_t num_positions);

  // The blocks that Reserve takes from those available.
  int32_t BlocksMissing(SequenceId sequence, int32_t first, int32_t num_positions) const;

  // The slots for states that Reserve and ReserveStates take from those available so that a step
  // may compute positions [first, end); 0 of models without states. At most 2, less one for each
  // that the sequence holds.
  int32_t StatesMissing(SequenceId sequence, int32_t first, int32_t end) const {
    return has_states() && first < end ? CountStatesMissing(sequence, first, end) : 0;
  }
  // Gives a sequence the slots with which a step computes positions [first, end), and those of
  // snapshots in between that pay, as far as there are slots that no sequence lacks.
  // REQUIRES: Reserve(sequence, first, end) has succeeded; StatesMissing(...) <= num_available_states.
  void ReserveStates(SequenceId sequence, int32_t first, int32_t end);
  // The slots of a step that computes positions [first, end): of each block from the one that holds
  // position first - 1 on, or from the first. Blocks that the step computes whole and that keep no
  // state have that of the next one that does. Empty of models without states.
  // REQUIRES: ReserveStates(sequence, first, end).
  std::vector<StateSlot> StatesOf(SequenceId sequence, int32_t first, int32_t end) const;

  // How many of the first `num_positions` positions of `sequence` can be gone on from: all of models
  // without states; else those up to the end of the last block among them whose state it holds.
  int32_t PositionsWithState(SequenceId sequence, int32_t num_positions) const {
    return has_states() && num_positions > 0 ? FindPositionsWithState(sequence, num_positions)
                                             : num_positions;
  }

  // Positions [0, tokens.size()) of `sequence` hold the keys and values of these tokens. The full
  // blocks among them become known, and where another block is known by the same tokens, the
  // sequence goes on with that one; not so of a sequence without a domain. Slots of states before
  // that of the last position become snapshots, or free.
  // REQUIRES: `sequence` holds blocks for them; tokens begin as in the call before.
  void MarkComputed(SequenceId sequence, absl::Span<const TokenId> tokens);

  // Gives back every block of `sequence`; nothing happens when it holds none.
  void Release(SequenceId sequence);

  // The contents of all blocks are lost: nothing is known by its tokens any more.
  // REQUIRES: no sequence holds blocks.
  void ForgetContents();
  // The same, and there are so many blocks and slots from now on. Counts of what has happened go on.
  // REQUIRES: no sequence holds blocks; both as KvCacheOptions have them.
  void Resize(int32_t num_blocks, int32_t num_state_slots);

  // The blocks of `sequence` in position order, empty when it holds none. Valid until the next
  // change to that sequence or the next new sequence.
  absl::Span<const BlockId> BlockTable(SequenceId sequence) const;

  // The shards keep copies of the tables, so that they hear of changes alone.

  // What has changed in the table of `sequence` since this was last asked, all of it at first.
  // Valid as BlockTable.
  TableChange TakeTableChange(SequenceId sequence);
  // The sequences whose tables were told and are over, since the last call. One that has begun
  // again may be among them.
  std::vector<SequenceId> TakeEndedTables() { return std::exchange(ended_tables_, {}); }
  // The shards have lost their copies: every table will be told from its beginning.
  void ForgetToldTables();

  // O(blocks of the sequence).
  SequenceBlocks BlocksOf(SequenceId sequence) const;

  // By how many blocks Reserve of positions from `first` on of `writer` would come closer to what
  // it lacks if all of `sequences` (no duplicates, `writer` not among them) were released together:
  // those that become available, and the copy that it could do without.
  int32_t BlocksFreedBy(absl::Span<const SequenceId> sequences, SequenceId writer,
                        int32_t first) const;

  // The same of slots: by how many StatesMissing of `writer` would come closer to what is available.
  int32_t StatesFreedBy(absl::Span<const SequenceId> sequences, SequenceId writer,
                        int32_t first) const;

  // Blocks that hold `num_positions` >= 0 positions.
  int32_t BlocksFor(int32_t num_positions) const;

  int32_t block_size() const { return options_.block_size; }
  PrefixKey model_key() const { return options_.model_key; }
  // Free and cached ones.
  int32_t num_available_blocks() const { return pool_.num_free() + index_.num_idle(); }
  int32_t num_total_blocks() const { return pool_.num_total(); }
  bool has_states() const { return states_.num_total() > 0; }
  int32_t num_total_states() const { return states_.num_total(); }
  // Free slots and those of snapshots.
  int32_t num_available_states() const { return states_.num_available(); }
  KvCacheStatistics statistics() const;

  // OK, or INTERNAL describing the first disagreement: within pool and index, a table with a block
  // that is free or twice in it or whose known blocks are no path, or a block that is neither free,
  // cached nor accounted for by the tables that have it; or something kept between calls that is not
  // what it stands for. O(B).
  absl::Status CheckIntegrity() const;
  // OK, or INTERNAL where blocks of `sequence` are known by other tokens than these, which it has.
  // O(tokens).
  absl::Status CheckContents(SequenceId sequence, absl::Span<const TokenId> tokens) const;
  // OK, or INTERNAL where a sequence lacks the state of the last of its computed positions, or of
  // those that steps in flight compute.
  absl::Status CheckStates(SequenceId sequence, int32_t num_computed, int32_t num_planned) const;

 private:
  friend class KvCacheSaboteur;  // of tests, which plant bugs to see them found

  // A slot that a sequence needs.
  struct HeldState {
    int32_t index = 0;   // of its block in the table
    bool found = false;  // it was a snapshot, or another sequence's, before
  };

  struct Table {
    std::vector<BlockId> blocks;
    PrefixIndex::Place root = 0;  // of its domain; 0: it shares nothing by its tokens
    int32_t num_known = 0;        // leading blocks that are a path in the index
    // The computed positions after the known blocks, fewer than a block has.
    std::vector<TokenId> tail;
    int32_t num_told = 0;  // leading blocks that the shards' copy has as they are
    bool told = false;     // the shards have a copy
    // The index of a block that is known to be neither another's nor in the index; -1: none is. Spares
    // looking at it for every token.
    int32_t own = -1;
    std::vector<HeldState> states;  // rising
  };

  // Null where it holds no blocks. Steps ask for one sequence's several times in a row.
  Table* FindTable(SequenceId sequence);
  // Where the block after the known ones of a table stands.
  PrefixIndex::Place EndOfKnown(const Table& table) const;
  PrefixKey KeyOfKnown(const Table& table) const;
  // Tables that have `block`.
  int32_t NumHolders(BlockId block) const {
    return pool_.references(block) - (index_.Contains(block) ? 1 : 0);
  }
  void Hold(BlockId block);
  void LetGo(BlockId block);
  BlockId TakeBlock(Reservation& reservation);
  // The block that `first` lies in and that others, or the index, have too.
  std::optional<size_t> BlockToCopy(const Table& table, int32_t first, bool only_if_held) const;
  int32_t BeginWithTail(Table& table, absl::Span<const TokenId> rest, int32_t most);
  // False, with nothing changed: the block is another sequence's too, which goes on from its state,
  // and so does this one, whose last position is that before `num_positions`.
  bool LearnNextBlock(Table& table, absl::Span<const TokenId> tokens, int32_t num_positions);
  void WithdrawTail(SequenceId sequence, const Table& table);
  int32_t BlockOf(int32_t position) const { return position / options_.block_size; }
  // Drops blocks at the end of a table that has begun until the last has a state, which it holds
  // then. Returns how many of its `num_positions` are left.
  int32_t TrimToState(Table& table, int32_t num_positions);
  static bool HoldsState(const Table& table, int32_t index);
  void HoldState(Table& table, int32_t index);
  // Of models with states: for every sequence of a step, so that others do not even call them.
  int32_t CountStatesMissing(SequenceId sequence, int32_t first, int32_t end) const;
  int32_t FindPositionsWithState(SequenceId sequence, int32_t num_positions) const;
  // Whether a snapshot of the block spares computing many positions.
  bool Pays(const Table& table, int32_t index) const;
  void LetGoOfState(const Table& table, const HeldState& held, bool ends);
  void LetGoOfSpareStates(Table& table, int32_t first, int32_t end);
  void LetGoOfStatesBefore(Table& table, int32_t num_positions) {
    if (table.states.size() > 1 && num_positions > 0) DropStatesBefore(table, num_positions);
  }
  void DropStatesBefore(Table& table, int32_t num_positions);
  void LetGoOfAllStates(const Table& table);
  std::optional<StateCopy> CopyState(Table& table, int32_t index, BlockId source,
                                     BlockId destination, bool is_read);
  bool MergeStates(Table& table, int32_t index, BlockId known, int32_t num_positions);
  absl::Status CheckTable(SequenceId sequence, const Table& table) const;
  absl::Status CheckReferences() const;
  absl::Status CheckKept() const;
  absl::Status CheckSlots() const;

  KvCacheOptions options_;
  BlockPool pool_;     // the index has a reference to each of its blocks
  PrefixIndex index_;  // idle: in no table
  StateSlots states_;  // snapshots belong to blocks of the index
  absl::flat_hash_map<SequenceId, Table> tables_;
  // That FindTable found last; null after a table came or went, which may have moved it.
  Table* found_ = nullptr;
  SequenceId found_for_ = 0;
  // By the place after which it comes, a sequence whose block there is computed in part.
  absl::flat_hash_map<PrefixIndex::Place, SequenceId> tails_;
  std::vector<SequenceId> ended_tables_;
  int32_t num_shared_ = 0;  // blocks with several holders
  uint64_t hit_positions_ = 0;
  uint64_t queried_positions_ = 0;
  uint64_t copied_blocks_ = 0;
  uint64_t evicted_blocks_ = 0;
  // Of BlocksFreedBy: by block, zero between calls.
  mutable std::vector<int32_t> given_back_;
};

}  // namespace sluice
