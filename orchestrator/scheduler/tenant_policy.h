// The weights and limits of tenants. Plain values.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"

namespace sluice {

struct TenantPolicy {
  double weight = 1;  // > 0; of twice the weight, twice the tokens where there are not enough
  int32_t max_running_sequences = std::numeric_limits<int32_t>::max();  // at least 1
  int32_t max_waiting_sequences = std::numeric_limits<int32_t>::max();  // at least 0
};

struct TenantPolicies {
  TenantPolicy others;  // of tenants that are not named
  absl::flat_hash_map<std::string, TenantPolicy> named;
  // A step with sequences of a tenant below its fair share takes at most so many times as long for
  // what other tenants have in it, once the cost of steps is known (SetStepCost). At least 1.
  double max_slowdown = 1.25;

  const TenantPolicy& Of(absl::string_view tenant) const;
};

// Returns the policies in force, the same pointer while nothing changes.
using TenantPolicySource = std::function<std::shared_ptr<const TenantPolicies>()>;

}  // namespace sluice
