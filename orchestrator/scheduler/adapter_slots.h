// Which adapter is in which slot of the shards' memory. An adapter takes a slot when the first
// sequence with it runs, and stays there until another one needs the slot: of those that no running
// sequence has, the least recently used gives way.
//
// Like a block, a slot may be given away while a step that reads it is in flight: stages execute
// steps in order, and a step says first what its slots hold.
//
// A sequence that finds no slot waits, and others are served before it, but not forever: after
// kMaxOvertakers of them, no sequence with another adapter begins before it does. Those that have begun
// continue: what they wait for may be a sequence that waits here.
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"

namespace sluice {

// An adapter in a slot, from a step on.
struct AdapterChange {
  int32_t slot = 0;
  std::string adapter;  // as SequenceSpec names it; empty: the slot is emptied

  friend bool operator==(const AdapterChange&, const AdapterChange&) = default;
};

class AdapterSlots {
 public:
  static constexpr int32_t kMaxOvertakers = 64;

  // REQUIRES: num_slots >= 0.
  explicit AdapterSlots(int32_t num_slots) : slots_(num_slots) {}

  // Whether a sequence with this adapter may run now; always with none. `sequence`: its number, above
  // 0. `has_begun`: it, or the one that it is a fork of, has run before. The first one that lacks a slot
  // is remembered as the one that others overtake.
  bool MayRun(const std::string& adapter, uint64_t sequence, bool has_begun);
  // A sequence with it runs. REQUIRES: MayRun, or a running sequence has the adapter.
  void Acquire(const std::string& adapter, uint64_t sequence);
  // It runs no more. REQUIRES: Acquire.
  void Release(const std::string& adapter);
  // A sequence waits no more.
  void ForgetWaiter(uint64_t sequence);

  // Of an adapter that a running sequence has; -1 for none.
  int32_t SlotOf(const std::string& adapter) const;

  // What has changed since the last call.
  std::vector<AdapterChange> TakeChanges();
  // The shards have lost what their slots held: all that is in use is told again, the rest forgotten.
  void ForgetTold();
  // Forgets an adapter that no running sequence has, so that its slot is emptied. False where one has.
  bool Drop(const std::string& adapter);

  int32_t num_slots() const { return static_cast<int32_t>(slots_.size()); }
  int32_t num_loaded() const { return static_cast<int32_t>(by_adapter_.size()); }

  // OK, or INTERNAL naming a slot that is not held as often as `holders` says, by adapter.
  absl::Status CheckIntegrity(const absl::flat_hash_map<std::string, int32_t>& holders) const;

 private:
  struct Slot {
    std::string adapter;  // empty: none
    int32_t holders = 0;
    uint64_t last_used = 0;
    bool told = true;  // the shards know what it holds
  };

  std::optional<int32_t> FindFree() const;

  std::vector<Slot> slots_;
  absl::flat_hash_map<std::string, int32_t> by_adapter_;
  uint64_t clock_ = 0;
  uint64_t waiter_ = 0;  // the first sequence that lacked a slot; 0: none does
  std::string awaited_;  // its adapter
  int32_t num_overtakers_ = 0;
};

}  // namespace sluice
