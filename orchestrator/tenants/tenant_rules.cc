#include "orchestrator/tenants/tenant_rules.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "services/model/json_fields.h"

namespace sluice {
namespace {

constexpr double kLeastWeight = 0.001;
constexpr double kMostWeight = 1000;
constexpr double kMostSlowdown = 1000;
constexpr int kMost = std::numeric_limits<int32_t>::max();

absl::Status CheckNames(const nlohmann::json& object, const std::string& source,
                        const std::string& path, const std::vector<std::string>& known) {
  for (const auto& [name, value] : object.items()) {
    if (std::count(known.begin(), known.end(), name) > 0) continue;
    std::string names = known.front();
    for (size_t i = 1; i < known.size(); ++i) absl::StrAppend(&names, ", ", known[i]);
    return absl::InvalidArgumentError(
        absl::StrCat(source, ": ", path, name, " is unknown; accepted: ", names));
  }
  return absl::OkStatus();
}

// The entry in field `name` of `parent`; what it leaves out is as in `rule`.
absl::StatusOr<TenantRule> ReadRule(const nlohmann::json& parent, const std::string& source,
                                    const std::string& path, const std::string& name,
                                    TenantRule rule) {
  const nlohmann::json& entry = parent.at(name);
  if (!entry.is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat(source, ": ", path, name, " is ", ValueText(entry), "; accepted: an object"));
  }
  const std::string prefix = absl::StrCat(path, name, ".");
  absl::Status status =
      CheckNames(entry, source, prefix,
                 {"weight", "priorities", "max_running_sequences", "max_waiting_sequences",
                  "sees_all_requests", "loads_adapters", "shares_prefixes"});
  if (!status.ok()) return status;
  JsonFields fields(source, entry, prefix);
  TenantPolicy& policy = rule.policy;
  if (const auto weight = fields.NumberAtLeast("weight", kLeastWeight, kMostWeight)) {
    policy.weight = *weight;
  }
  policy.max_running_sequences =
      fields.OptionalInt("max_running_sequences", 1, kMost).value_or(policy.max_running_sequences);
  policy.max_waiting_sequences =
      fields.OptionalInt("max_waiting_sequences", 0, kMost).value_or(policy.max_waiting_sequences);
  rule.sees_all_requests = fields.Bool("sees_all_requests").value_or(rule.sees_all_requests);
  rule.loads_adapters = fields.Bool("loads_adapters").value_or(rule.loads_adapters);
  rule.shares_prefixes = fields.Bool("shares_prefixes").value_or(rule.shares_prefixes);
  if (const auto priorities = fields.IntOrList("priorities", -kMost, kMost)) {
    rule.priorities.assign(priorities->begin(), priorities->end());
    if (rule.priorities.empty()) fields.Reject("priorities", "at least one");
  }
  if (!fields.status().ok()) return fields.status();
  return rule;
}

}  // namespace

const TenantRule& TenantRules::Of(const std::string& tenant) const {
  const auto it = named.find(tenant);
  return it == named.end() ? others : it->second;
}

TenantPolicies TenantRules::Policies() const {
  TenantPolicies policies = {.others = others.policy, .named = {}, .max_slowdown = max_slowdown};
  for (const auto& [name, rule] : named) policies.named[name] = rule.policy;
  return policies;
}

absl::StatusOr<TenantRules> ParseTenantRules(const std::string& text, const std::string& source) {
  const absl::StatusOr<nlohmann::json> json = ParseJson(text, source);
  if (!json.ok()) return json.status();
  if (!json->is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat(source, ": it is ", ValueText(*json), "; accepted: an object"));
  }
  absl::Status status = CheckNames(*json, source, "", {"default", "max_slowdown", "tenants"});
  if (!status.ok()) return status;
  TenantRules rules;
  JsonFields fields(source, *json, "");
  rules.max_slowdown =
      fields.NumberAtLeast("max_slowdown", 1, kMostSlowdown).value_or(rules.max_slowdown);
  if (!fields.status().ok()) return fields.status();
  if (json->contains("default")) {
    absl::StatusOr<TenantRule> rule = ReadRule(*json, source, "", "default", {});
    if (!rule.ok()) return rule.status();
    rules.others = *std::move(rule);
  }
  if (!json->contains("tenants")) return rules;
  const nlohmann::json& tenants = json->at("tenants");
  if (!tenants.is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat(source, ": tenants is ", ValueText(tenants), "; accepted: an object"));
  }
  for (const auto& [name, entry] : tenants.items()) {
    absl::StatusOr<TenantRule> rule = ReadRule(tenants, source, "tenants.", name, rules.others);
    if (!rule.ok()) return rule.status();
    rules.named[name] = *std::move(rule);
  }
  return rules;
}

}  // namespace sluice
