#include "orchestrator/kv_cache/state_slots.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/check.h"

namespace sluice {

StateSlots::StateSlots(int32_t num_slots, int32_t num_blocks)
    : slots_(num_slots), slot_of_(num_blocks, kNone) {
  free_.reserve(num_slots);
  for (StateSlot slot = num_slots - 1; slot >= 0; --slot) free_.push_back(slot);
}

void StateSlots::Attach(BlockId block) {
  SLUICE_CHECK(!Has(block) && num_available() > 0);
  if (free_.empty()) {
    ++num_evicted_;
    Drop(slots_[first_].block);
  }
  const StateSlot slot = free_.back();
  free_.pop_back();
  slots_[slot] = {.block = block, .pins = 1};
  slot_of_[block] = slot;
}

void StateSlots::Pin(BlockId block) {
  SLUICE_CHECK(Has(block));
  const StateSlot slot = slot_of_[block];
  if (slots_[slot].pins++ == 0) Unlink(slot);
}

void StateSlots::UnpinToKeep(BlockId block, SnapshotOrder order) {
  SLUICE_CHECK(Has(block) && pins(block) > 0);
  const StateSlot slot = slot_of_[block];
  if (--slots_[slot].pins == 0) Link(slot, order);
}

void StateSlots::UnpinToFree(BlockId block) {
  SLUICE_CHECK(Has(block) && pins(block) > 0);
  const StateSlot slot = slot_of_[block];
  if (--slots_[slot].pins == 0) Free(slot);
}

void StateSlots::Move(BlockId from, BlockId to) {
  SLUICE_CHECK(Has(from) && !Has(to));
  const StateSlot slot = std::exchange(slot_of_[from], kNone);
  slots_[slot].block = to;
  slot_of_[to] = slot;
}

void StateSlots::Touch(BlockId block) {
  if (!Has(block) || pins(block) > 0) return;
  Unlink(slot_of_[block]);
  Link(slot_of_[block], SnapshotOrder::kLast);
}

void StateSlots::Drop(BlockId block) {
  if (!Has(block)) return;
  const StateSlot slot = slot_of_[block];
  SLUICE_CHECK(slots_[slot].pins == 0);
  Unlink(slot);
  Free(slot);
}

void StateSlots::Free(StateSlot slot) {
  slot_of_[slots_[slot].block] = kNone;
  slots_[slot] = {};
  free_.push_back(slot);
}

void StateSlots::Link(StateSlot slot, SnapshotOrder order) {
  ++num_idle_;
  if (order == SnapshotOrder::kLast) {
    slots_[slot].before = last_;
    (last_ == kNone ? first_ : slots_[last_].after) = slot;
    last_ = slot;
    return;
  }
  slots_[slot].after = first_;
  (first_ == kNone ? last_ : slots_[first_].before) = slot;
  first_ = slot;
}

void StateSlots::Unlink(StateSlot slot) {
  Slot& own = slots_[slot];
  (own.before == kNone ? first_ : slots_[own.before].after) = own.after;
  (own.after == kNone ? last_ : slots_[own.after].before) = own.before;
  own.before = own.after = kNone;
  --num_idle_;
}

absl::Status StateSlots::CheckIntegrity(const std::vector<int32_t>& pins) const {
  const auto broken = [](StateSlot slot, auto... what) {
    return absl::InternalError(absl::StrCat("state slot ", slot, " ", what...));
  };
  std::vector<bool> listed(slots_.size(), false);
  for (const StateSlot slot : free_) {
    if (slots_[slot].block != kNone || listed[slot]) return broken(slot, "is not free, or twice");
    listed[slot] = true;
  }
  int32_t num_left = num_idle_;
  StateSlot before = kNone;
  for (StateSlot slot = first_; slot != kNone; slot = slots_[slot].after) {
    if (slots_[slot].block == kNone || slots_[slot].pins != 0 || slots_[slot].before != before ||
        listed[slot] || --num_left < 0) {
      return broken(slot, "stands wrongly in the list of idle ones");
    }
    listed[slot] = true;
    before = slot;
  }
  if (num_left != 0 || last_ != before) return broken(last_, "does not end the idle ones");
  for (StateSlot slot = 0; slot < num_total(); ++slot) {
    const BlockId block = slots_[slot].block;
    if (block == kNone) {
      if (!listed[slot]) return broken(slot, "has no block and is not free");
      continue;
    }
    if (slot_of_[block] != slot) return broken(slot, "is of block ", block, ", which has another");
    if (slots_[slot].pins != pins[block]) {
      return broken(slot, "of block ", block, " has ", slots_[slot].pins, " pins; ", pins[block],
                    " sequences need it");
    }
    if ((slots_[slot].pins == 0) != listed[slot]) return broken(slot, "is neither needed nor idle");
  }
  for (BlockId block = 0; block < static_cast<BlockId>(slot_of_.size()); ++block) {
    const StateSlot slot = slot_of_[block];
    if (slot != kNone && slots_[slot].block != block) {
      return broken(slot, "is taken for that of block ", block);
    }
    if (slot == kNone && pins[block] != 0) {
      return absl::InternalError(absl::StrCat("block ", block, " lacks a state that is needed"));
    }
  }
  return absl::OkStatus();
}

}  // namespace sluice
