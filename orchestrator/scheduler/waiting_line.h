// Who waits, and who is next. Higher priorities first; within a priority the tenant that has been
// served least; within a tenant whoever came first. Every operation takes time logarithmic in the
// tenants and sequences that wait.
//
// Not thread-safe.
#pragma once

#include <cstdint>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "orchestrator/scheduler/tenants.h"

namespace sluice {

class WaitingLine {
 public:
  // REQUIRES: it is not in line, and its tenant is set.
  void Insert(SequenceState& sequence);
  // REQUIRES: it is in line.
  void Erase(SequenceState& sequence);

  // Begins a round, in which each sequence is looked at once at most.
  void BeginRound() { ++round_; }
  // The next to look at, or null: of tenants that may run one more, in order. It is next again
  // until Pass or Erase.
  SequenceState* Next();
  // Looks at the ones behind it.
  void Pass(SequenceState& sequence);

  // `tokens`, priced, have been served. Changes the order at once.
  void Bill(Tenant& tenant, double tokens);

  // What the tenant that is next has been served; of late where nobody waits.
  double least_served() const;

  bool empty() const { return num_sequences_ == 0; }
  int32_t num_sequences() const { return num_sequences_; }
  int64_t num_tokens() const { return num_tokens_; }  // that they have, prompts and generated

  // In no order that means anything.
  template <class Visit>
  void ForEach(Visit visit) const {
    for (const auto& [negated_priority, tenants] : by_priority_) {
      for (const Tenant* tenant : tenants) {
        for (const auto& [place, sequence] : tenant->waiting.at(negated_priority)) {
          visit(place, *sequence);
        }
      }
    }
  }

 private:
  // Of two served alike, the one that came later: it was given the other's count when it came.
  struct ServedLess {
    bool operator()(const Tenant* a, const Tenant* b) const {
      return a->served != b->served ? a->served < b->served : a->serial > b->serial;
    }
  };

  // Of every tenant with a line of that priority.
  absl::btree_map<int64_t, absl::btree_set<Tenant*, ServedLess>> by_priority_;
  int32_t num_sequences_ = 0;
  int64_t num_tokens_ = 0;
  uint64_t round_ = 0;
  double least_served_ = 0;
};

}  // namespace sluice
