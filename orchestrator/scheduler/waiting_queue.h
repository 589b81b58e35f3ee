// The queue of waiting sequences: higher priorities first; within a priority the tenant that has
// been served least; within a tenant by QueuePosition. Every operation takes time logarithmic in
// the tenants and sequences that wait.
//
// Not thread-safe.
#pragma once

#include <cstdint>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "orchestrator/scheduler/sequence_state.h"
#include "orchestrator/scheduler/tenants.h"

namespace sluice {

// Sequences in serving order.
using SequenceList = absl::btree_map<QueuePosition, SequenceState*>;

// What one scheduler has of a tenant.
struct TenantShare {
  Tenant* tenant = nullptr;
  double served = 0;     // the account's, as of the last time that the queue was ordered by it
  double uncharged = 0;  // priced tokens of the step being planned
  int32_t num_alive = 0;
  int32_t num_running = 0;
  int32_t num_waiting = 0;
  int64_t num_waiting_tokens = 0;
  absl::btree_map<int64_t, SequenceList> waiting;  // by negated priority; no list is empty
  // The last of its waiting sequences that was looked at, and in which round that was.
  QueuePosition seen;
  uint64_t seen_in_round = 0;
};

class WaitingQueue {
 public:
  // Borrows the tenants.
  explicit WaitingQueue(Tenants& tenants) : tenants_(tenants) {}

  // REQUIRES: it is not in the queue, and its tenant and share are set.
  void Insert(SequenceState& sequence);
  // REQUIRES: it is in the queue.
  void Erase(SequenceState& sequence);

  // Begins a round, in which each sequence is looked at once at most.
  void BeginRound() { ++round_; }
  // The next sequence to look at, of tenants that may run one more; null: none. It stays the next
  // until Pass or Erase.
  SequenceState* Next();
  // Moves on to the sequences behind it.
  void Pass(SequenceState& sequence);

  // Charges a tenant for priced tokens. Changes the order at once.
  void Charge(TenantShare& share, double tokens);
  // Orders the queue by what other schedulers have charged, too.
  void TakeCharges();

  // What the tenant that is next has been served; with an empty queue, Tenants::start.
  double least_served() const;

  bool empty() const { return num_sequences_ == 0; }
  int32_t num_sequences() const { return num_sequences_; }
  int64_t num_tokens() const { return num_tokens_; }  // of its sequences, prompts and generated

  // Calls visit(position, sequence) for every sequence, in unspecified order.
  template <class Visit>
  void ForEach(Visit visit) const {
    for (const auto& [negated_priority, tenants] : by_priority_) {
      for (const TenantShare* share : tenants) {
        for (const auto& [position, sequence] : share->waiting.at(negated_priority)) {
          visit(position, *sequence);
        }
      }
    }
  }

 private:
  // Of two served alike, the later one goes first: it was given the other's count when it came.
  struct ServedLess {
    bool operator()(const TenantShare* a, const TenantShare* b) const {
      return a->served != b->served ? a->served < b->served : a->tenant->serial > b->tenant->serial;
    }
  };

  // Puts a tenant where it belongs by what it has been served.
  void Reorder(TenantShare& share);

  Tenants& tenants_;
  uint64_t num_charges_ = 0;  // of tenants_, that the order takes into account
  // Of every tenant with waiting sequences of that priority.
  absl::btree_map<int64_t, absl::btree_set<TenantShare*, ServedLess>> by_priority_;
  int32_t num_sequences_ = 0;
  int64_t num_tokens_ = 0;
  uint64_t round_ = 0;
};

}  // namespace sluice
