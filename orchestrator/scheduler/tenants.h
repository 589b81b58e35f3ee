// The tenants that sequences are served for, what each is granted, and what each has been served.
// Schedulers borrow it: those of an engine's served models share it, so that a tenant has one account
// wherever it is served. A draft model's scheduler has its own, so that no sequence counts twice. Tenants share by weight: each counts the tokens it was served, priced and divided by
// its weight, and within a priority the one with the smallest count goes first (virtual token
// counters, Sheng et al. 2024). A tenant that had no sequences does not collect credit: it starts
// with the count of those that wait.
//
// Plain bookkeeping; not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/container/node_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "orchestrator/scheduler/tenant_policy.h"

namespace sluice {

// A tenant's account.
struct Tenant {
  std::string name;
  uint64_t serial = 0;  // in order of appearance
  TenantPolicy policy;
  double served = 0;  // priced tokens by weight
  // Sequences in all schedulers.
  int32_t num_alive = 0;
  int32_t num_running = 0;
  int32_t num_waiting = 0;
};

class Tenants {
 public:
  // The prices of a position of a prompt and of one that chooses a token.
  static constexpr double kPrefillPrice = 1;
  static constexpr double kDecodePrice = 2;

  // `policies` is asked by RefreshPolicies; null: all tenants alike, without limits.
  explicit Tenants(TenantPolicySource policies = nullptr) : source_(std::move(policies)) {}

  Tenants(const Tenants&) = delete;
  Tenants& operator=(const Tenants&) = delete;

  // Takes over what tenants are granted by now, for those known as well.
  void RefreshPolicies();
  const TenantPolicies& policies() const { return policies_; }

  // Counts one more sequence of a tenant, which starts at `least` served where it had none. The
  // reference is valid until Leave counts its last sequence.
  Tenant& Enter(absl::string_view name, double least);
  // Counts one sequence less.
  void Leave(Tenant& tenant);
  // Null where the tenant is not known.
  Tenant* Find(absl::string_view name);
  const Tenant* Find(absl::string_view name) const;

  // Charges a tenant for priced tokens.
  void Charge(Tenant& tenant, double tokens) {
    tenant.served += tokens / tenant.policy.weight;
    ++num_charges_;
  }
  // Charges a tenant that has no sequence in the charging scheduler. Its count is first raised to
  // `least`, at which it would start. While no tenant has sequences, the counts at which tenants start
  // are raised to the charged one: the work delayed nobody, so it gives nobody precedence.
  void ChargeIdle(absl::string_view name, double tokens, double least);
  // Grows with every charge, so that a scheduler notices what others have charged.
  uint64_t num_charges() const { return num_charges_; }
  // The largest count that a tenant had when the last of its sequences of a priority left a queue:
  // where none waits, tenants start with it.
  double start() const { return start_; }
  void RaiseStart(double served);

  // A tenant's fair share of `num_slots` while others have sequences too: by weight, at least 1.
  int32_t FairSlots(const Tenant& tenant, int64_t num_slots) const;
  // A tenant's fair share of the service once it has sequences: in (0, 1].
  double ShareOf(absl::string_view name) const;
  // The tenant has less than half its share of all sequences, by weight.
  bool IsBelowFairShare(const Tenant& tenant) const {
    return 2 * tenant.num_alive * active_weight_ <
           static_cast<double>(num_alive_) * tenant.policy.weight;
  }

  int32_t num_active() const { return num_active_; }
  double active_weight() const { return active_weight_; }  // of all that have sequences
  const absl::node_hash_map<std::string, Tenant>& all() const { return tenants_; }

  // OK, or INTERNAL: the totals are not those of the accounts. O(tenants).
  absl::Status CheckIntegrity() const;

 private:
  // The account of a tenant, which may be new; of one without sequences with at least `least`.
  Tenant& Account(absl::string_view name, double least);
  void DropIdle(double least);

  const TenantPolicySource source_;
  std::shared_ptr<const TenantPolicies> given_;  // by source_, last
  TenantPolicies policies_;
  absl::node_hash_map<std::string, Tenant> tenants_;
  uint64_t last_serial_ = 0;
  uint64_t num_charges_ = 0;
  double start_ = 0;
  int64_t num_alive_ = 0;     // sequences
  int32_t num_active_ = 0;    // tenants with sequences
  double active_weight_ = 0;  // of all of them
};

}  // namespace sluice
