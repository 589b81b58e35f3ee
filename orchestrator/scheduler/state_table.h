// The living sequences and which list each of them is in: waiting in the queue, running in a slot,
// or parked.
//
//     Add        to kNew
//     Enqueue    kNew to kWaiting
//     Run        kNew (a fork that shares blocks) or kWaiting to kRunning
//     Requeue    kRunning to kWaiting, or to kParked
//     SetPaused  kWaiting to kParked
//     Unpark     kParked to kWaiting, once neither paused nor awaiting a choice
//
// The table holds no blocks and knows no policy: its callers keep the KV cache and the steps in
// flight consistent with it. Not thread-safe.
#pragma once

#include <cstdint>

#include "absl/container/node_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "orchestrator/scheduler/adapter_slots.h"
#include "orchestrator/scheduler/sequence_state.h"
#include "orchestrator/scheduler/tenants.h"
#include "orchestrator/scheduler/waiting_queue.h"

namespace sluice {

class StateTable {
 public:
  // At most `num_slots` sequences run at a time. Borrows the tenants, and counts the sequences in
  // their accounts.
  // `num_adapter_slots`: of adapters that running sequences have at a time.
  StateTable(int64_t num_slots, Tenants& tenants, int32_t num_adapter_slots = 0)
      : num_slots_(num_slots), tenants_(tenants), adapters_(num_adapter_slots), queue_(tenants) {}
  // Takes its sequences out of the tenants' accounts.
  ~StateTable();

  StateTable(const StateTable&) = delete;
  StateTable& operator=(const StateTable&) = delete;

  // Null where it is not alive. Pointers are valid until Erase.
  SequenceState* Find(SequenceId id);
  const SequenceState* Find(SequenceId id) const;
  // The sequence whose prompt this one has, or null: it is gone, or another has its id now.
  const SequenceState* SiblingOf(const SequenceState& sequence) const;

  // Adds a new sequence, for Enqueue or Run. Its tenant starts at `least` served where it had no
  // sequence. REQUIRES: no sequence with its id is alive.
  SequenceState& Add(SequenceSpec spec, const QueuePosition& position, double least);
  // The serial that the next sequence gets.
  uint64_t TakeSerial() { return num_added_++; }
  // Removes a sequence in any state.
  void Erase(SequenceState& sequence);

  // kNew to kWaiting.
  void Enqueue(SequenceState& sequence);
  // Whether there is a slot for the adapter of a sequence that is not running.
  bool HasAdapterSlot(const SequenceState& sequence) {
    return adapters_.MayRun(sequence.spec.adapter, sequence.position.serial + 1,
                            sequence.last_step > 0);
  }
  // kNew or kWaiting to kRunning. REQUIRES: has_free_slot(), HasAdapterSlot().
  void Run(SequenceState& sequence);
  // kRunning to kWaiting, or to kParked where it is paused or awaits a choice.
  void Requeue(SequenceState& sequence);
  // Sets or clears `paused`. A waiting sequence is parked; a running one stays so.
  void SetPaused(SequenceState& sequence, bool paused);
  // Sets or clears `awaits_choice`. A parked sequence stays so until Unpark.
  void SetAwaitsChoice(SequenceState& sequence, bool awaits_choice);
  // kParked to kWaiting, unless something keeps it parked. Does nothing in other states.
  void Unpark(SequenceState& sequence);

  // What this scheduler has of a tenant; null where it has no sequence of it.
  TenantShare* ShareOf(absl::string_view tenant);
  const TenantShare* ShareOf(absl::string_view tenant) const;

  WaitingQueue& queue() { return queue_; }
  const WaitingQueue& queue() const { return queue_; }
  AdapterSlots& adapters() { return adapters_; }
  const AdapterSlots& adapters() const { return adapters_; }
  // In serving order.
  const SequenceList& running() const { return running_; }
  const absl::node_hash_map<SequenceId, SequenceState>& all() const { return sequences_; }

  int64_t num_slots() const { return num_slots_; }
  bool has_free_slot() const { return std::ssize(running_) < num_slots_; }
  int32_t num_parked() const { return num_parked_; }
  // Running sequences that await a choice.
  int32_t num_awaiting() const { return num_awaiting_; }

  // OK, or INTERNAL naming the first disagreement between lists, states and counts. O(sequences).
  absl::Status CheckIntegrity() const;

 private:
  absl::Status CheckLists() const;
  absl::Status CheckCounts() const;
  absl::Status CheckShares() const;
  void CountRunning(SequenceState& sequence, int32_t change);

  const int64_t num_slots_;
  Tenants& tenants_;
  absl::node_hash_map<SequenceId, SequenceState> sequences_;  // owns; the lists borrow
  absl::node_hash_map<const Tenant*, TenantShare> shares_;    // of tenants with sequences here
  AdapterSlots adapters_;                                     // of running sequences
  WaitingQueue queue_;
  SequenceList running_;
  uint64_t num_added_ = 0;
  int32_t num_parked_ = 0;
  int32_t num_awaiting_ = 0;
};

// An INTERNAL error about a sequence, for integrity checks.
absl::Status BrokenSequence(const SequenceState& sequence, absl::string_view what);

}  // namespace sluice
