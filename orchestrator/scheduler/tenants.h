// Whom sequences are served for, and what each has been served. Tenants share by weight: each
// counts the tokens it was served, priced and divided by its weight, and within a priority the one
// with the smallest count goes first (virtual token counters, Sheng et al. 2024). A tenant that had
// nothing to do does not collect credit: it begins where those that wait are.
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

// Sequences in line order: the first key goes first.
using Line = absl::btree_map<PlaceInLine, SequenceState*>;

struct Tenant {
  std::string name;
  uint64_t serial = 0;  // in order of appearance
  TenantPolicy policy;
  double served = 0;    // priced tokens by weight, those in `unbilled` not yet included
  double unbilled = 0;  // priced tokens
  int32_t num_alive = 0;
  int32_t num_running = 0;
  int32_t num_waiting = 0;
  int64_t num_waiting_tokens = 0;
  absl::btree_map<int64_t, Line> waiting;  // by negated priority; no line is empty
  // The last of its waiting sequences that was looked at, and in which round that was.
  PlaceInLine seen;
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

  // One more sequence of a tenant, which begins at `least` where it had none.
  Tenant& Enter(absl::string_view name, double least);
  // Null: it is not known.
  Tenant* Find(absl::string_view name) {
    const auto it = tenants_.find(name);
    return it == tenants_.end() ? nullptr : &it->second;
  }
  // One sequence less.
  void Leave(Tenant& tenant);

  // The places of `num_places` that are a tenant's by right while others have sequences too: its
  // part by weight, at least 1.
  int32_t FairPlaces(const Tenant& tenant, int64_t num_places) const;

  // The part of the service that is a tenant's by right once it has sequences: in (0, 1].
  double PartOf(absl::string_view name) const;

  // It has less than half its part of `num_alive` sequences of all tenants, by weight.
  bool AsksForLittle(const Tenant& tenant, int64_t num_alive) const {
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
