// Which blocks have a slot for the state of recurrent layers: what computes the positions of a block,
// and those after it, without computing those before it again. There are fewer slots than blocks.
//
// A slot is
// - *free*: no block has it;
// - *pinned*: a sequence needs it to go on, once for each such sequence;
// - *idle*: a snapshot, which no sequence needs and the prefix cache may use. It gives way where no
//   slot is free, the one in front first.
//
// It knows ids only; the memory behind them is the shards'. Every operation is O(1). Not thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "orchestrator/kv_cache/types.h"

namespace sluice {

// Where a snapshot that nobody needs any more goes among the others.
enum class SnapshotOrder : uint8_t {
  kFirst,  // it gives way before all others
  kLast,   // and after them
};

class StateSlots {
 public:
  static constexpr StateSlot kNone = -1;

  // REQUIRES: both are >= 0. All slots are free. Without slots no block has one, and none is needed.
  StateSlots(int32_t num_slots, int32_t num_blocks);

  // The slot of a block, or kNone.
  StateSlot Of(BlockId block) const { return slot_of_[block]; }
  bool Has(BlockId block) const { return slot_of_[block] != kNone; }
  // Sequences that need it. REQUIRES: Has(block).
  int32_t pins(BlockId block) const { return slots_[slot_of_[block]].pins; }

  // Gives a block a slot, pinned once: a free one, or that of the first snapshot.
  // REQUIRES: !Has(block), num_available() > 0.
  void Attach(BlockId block);
  // One sequence more or less needs the block's slot. Without any it is a snapshot, or free.
  // REQUIRES: Has(block); for both Unpin, pins(block) > 0.
  void Pin(BlockId block);
  void UnpinToKeep(BlockId block, SnapshotOrder order);
  void UnpinToFree(BlockId block);
  // Lets the slot of `from` be that of `to`, with its pins. REQUIRES: Has(from), !Has(to).
  void Move(BlockId from, BlockId to);
  // Makes a snapshot the last to give way. Does nothing where the block has none.
  void Touch(BlockId block);
  // Frees a snapshot, where the block has one. REQUIRES: its slot is not pinned.
  void Drop(BlockId block);

  int32_t num_total() const { return static_cast<int32_t>(slots_.size()); }
  int32_t num_free() const { return static_cast<int32_t>(free_.size()); }
  int32_t num_idle() const { return num_idle_; }
  int32_t num_available() const { return num_free() + num_idle_; }
  uint64_t num_evicted() const { return num_evicted_; }

  // OK, or INTERNAL naming the first slot whose block, pins and list disagree; `pins` says by block
  // how many sequences need its slot. O(slots + blocks).
  absl::Status CheckIntegrity(const std::vector<int32_t>& pins) const;

 private:
  friend class KvCacheSaboteur;  // of tests, which plant bugs to see them found

  struct Slot {
    BlockId block = kNone;  // kNone: free
    int32_t pins = 0;
    // Among the idle ones.
    StateSlot before = kNone;
    StateSlot after = kNone;
  };

  void Link(StateSlot slot, SnapshotOrder order);
  void Unlink(StateSlot slot);
  void Free(StateSlot slot);

  std::vector<Slot> slots_;
  std::vector<StateSlot> slot_of_;  // by block
  std::vector<StateSlot> free_;     // a stack: the next slot is at the back
  StateSlot first_ = kNone;         // idle
  StateSlot last_ = kNone;
  int32_t num_idle_ = 0;
  uint64_t num_evicted_ = 0;
};

}  // namespace sluice
