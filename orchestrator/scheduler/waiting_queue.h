// The queue of waiting sequences: higher priorities first; within a priority the tenant that has
// been served least; within a tenant by QueuePosition. Every operation takes time logarithmic in
// the tenants and sequences that wait.
//
// Not thread-safe.
#pragma once

#include <cstdint>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "orchestrator/scheduler/tenants.h"

namespace sluice {

class WaitingQueue {
 public:
  // REQUIRES: it is not in the queue, and its tenant is set.
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
  void Charge(Tenant& tenant, double tokens);

  // What the tenant that is next has been served; with an empty queue, what the last one had.
  double least_served() const;

  bool empty() const { return num_sequences_ == 0; }
  int32_t num_sequences() const { return num_sequences_; }
  int64_t num_tokens() const { return num_tokens_; }  // of its sequences, prompts and generated

  // Calls visit(position, sequence) for every sequence, in unspecified order.
  template <class Visit>
  void ForEach(Visit visit) const {
    for (const auto& [negated_priority, tenants] : by_priority_) {
      for (const Tenant* tenant : tenants) {
        for (const auto& [position, sequence] : tenant->waiting.at(negated_priority)) {
          visit(position, *sequence);
        }
      }
    }
  }

 private:
  // Of two served alike, the later one goes first: it was given the other's count when it came.
  struct ServedLess {
    bool operator()(const Tenant* a, const Tenant* b) const {
      return a->served != b->served ? a->served < b->served : a->serial > b->serial;
    }
  };

  // Of every tenant with waiting sequences of that priority.
  absl::btree_map<int64_t, absl::btree_set<Tenant*, ServedLess>> by_priority_;
  int32_t num_sequences_ = 0;
  int64_t num_tokens_ = 0;
  uint64_t round_ = 0;
  double least_served_ = 0;
};

}  // namespace sluice
