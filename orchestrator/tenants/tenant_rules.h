// The operator's configuration of tenants. Plain values.
//
// The file is JSON:
//   {"max_slowdown": 1.25,
//    "default": {"weight": 1, "priorities": [0]},
//    "tenants": {"batch": {"weight": 0.25, "max_running_sequences": 8, "max_waiting_sequences": 64},
//                "chat": {"weight": 4, "priorities": [0, 1]}}}
// "max_slowdown" is how much longer a step may take beside a tenant that asks for little, for what
// others have in it (TenantPolicies). "default" holds for tenants that are not named, and for what
// the entry of one that is leaves out.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "orchestrator/scheduler/tenant_policy.h"

namespace sluice {

struct TenantRule {
  TenantPolicy policy;
  std::vector<int32_t> priorities = {0};  // that it may ask for
  bool sees_all_requests = false;         // in `sluice status`, where callers show who they are
  bool loads_adapters = false;            // may load and unload them, from any folder
  // Its requests with a cache_salt share kept prefixes with those of other tenants of which this is
  // true too.
  bool shares_prefixes = false;
};

struct TenantRules {
  TenantRule others;
  std::map<std::string, TenantRule> named;
  double max_slowdown = TenantPolicies().max_slowdown;

  const TenantRule& Of(const std::string& tenant) const;
  TenantPolicies Policies() const;
};

// `source` names the file in messages. INVALID_ARGUMENT naming field, value and what is accepted,
// unknown fields included: max_slowdown from 1 to 1000, weight from 0.001 to 1000, limits from 1
// (waiting: 0), priorities a list of integers, sees_all_requests, loads_adapters and shares_prefixes
// true or false.
absl::StatusOr<TenantRules> ParseTenantRules(const std::string& text, const std::string& source);

}  // namespace sluice
