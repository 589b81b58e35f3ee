// The tenants that sequences are served for, and what each has been served. Tenants share by
// weight: each counts the tokens it was served, priced and divided by its weight, and within a
// priority the one with the smallest count goes first (virtual token counters, Sheng et al. 2024).
// A tenant that had no sequences does not collect credit: it starts with the count of those that
// wait.
//
// Plain bookkeeping; not thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "absl/container/btree_map.h"
#include "absl/container/node_hash_map.h"
#include "absl/strings/string_view.h"
#include "orchestrator/scheduler/sequence_state.h"
#include "orchestrator/scheduler/tenant_policy.h"

namespace sluice {

// Sequences in serving order.
using SequenceList = absl::btree_map<QueuePosition, SequenceState*>;

struct Tenant {
  std::string name;
  uint64_t serial = 0;  // in order of appearance
  TenantPolicy policy;
  double served = 0;     // priced tokens by weight, without those in `uncharged`
  double uncharged = 0;  // priced tokens
  int32_t num_alive = 0;
  int32_t num_running = 0;
  int32_t num_waiting = 0;
  int64_t num_waiting_tokens = 0;
  absl::btree_map<int64_t, SequenceList> waiting;  // by negated priority; no list is empty
  // The last of its waiting sequences that was looked at, and in which round that was.
  QueuePosition seen;
  uint64_t seen_in_round = 0;
};

class Tenants {
 public:
  // The prices of a position of a prompt and of one that chooses a token.
  static constexpr double kPrefillPrice = 1;
  static constexpr double kDecodePrice = 2;

  // From now on, for those known as well.
  void SetPolicies(TenantPolicies policies);
  const TenantPolicies& policies() const { return policies_; }

  // Counts one more sequence of a tenant, which starts at `least` where it had none.
  Tenant& Enter(absl::string_view name, double least);
  // Null where the tenant is not known.
  Tenant* Find(absl::string_view name) {
    const auto it = tenants_.find(name);
    return it == tenants_.end() ? nullptr : &it->second;
  }
  // Counts one sequence less.
  void Leave(Tenant& tenant);

  // A tenant's fair share of `num_slots` while others have sequences too: by weight, at least 1.
  int32_t FairSlots(const Tenant& tenant, int64_t num_slots) const;

  // A tenant's fair share of the service once it has sequences: in (0, 1].
  double ShareOf(absl::string_view name) const;

  // It has less than half its share of `num_alive` sequences of all tenants, by weight.
  bool IsBelowFairShare(const Tenant& tenant, int64_t num_alive) const {
    return 2 * tenant.num_alive * active_weight_ <
           static_cast<double>(num_alive) * tenant.policy.weight;
  }

  int32_t num_active() const { return num_active_; }
  double active_weight() const { return active_weight_; }  // of all that have sequences
  const absl::node_hash_map<std::string, Tenant>& all() const { return tenants_; }

 private:
  void DropIdle(double least);

  TenantPolicies policies_;
  absl::node_hash_map<std::string, Tenant> tenants_;
  uint64_t last_serial_ = 0;
  int32_t num_active_ = 0;    // with sequences
  double active_weight_ = 0;  // of all of them
};

}  // namespace sluice
