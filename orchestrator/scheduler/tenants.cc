#include "orchestrator/scheduler/tenants.h"

#include <algorithm>
#include <utility>

#include "kernels/check.h"

namespace sluice {
namespace {

// Tenants without sequences that are remembered, so that leaving and coming back is no way to be
// served first.
constexpr size_t kMaxRemembered = 10'000;

}  // namespace

const TenantPolicy& TenantPolicies::Of(absl::string_view tenant) const {
  const auto it = named.find(tenant);
  return it == named.end() ? others : it->second;
}

void Tenants::SetPolicies(TenantPolicies policies) {
  policies_ = std::move(policies);
  active_weight_ = 0;
  for (auto& [name, tenant] : tenants_) {
    tenant.policy = policies_.Of(name);
    if (tenant.num_alive > 0) active_weight_ += tenant.policy.weight;
  }
}

Tenant& Tenants::Enter(absl::string_view name, double least) {
  if (tenants_.size() >= kMaxRemembered && !tenants_.contains(name)) DropIdle(least);
  const auto [it, added] = tenants_.try_emplace(name);
  Tenant& tenant = it->second;
  if (added) {
    tenant.name = std::string(name);
    tenant.serial = ++last_serial_;
    tenant.policy = policies_.Of(name);
  }
  if (tenant.num_alive++ == 0) {
    tenant.served = std::max(tenant.served, least);
    active_weight_ += tenant.policy.weight;
    ++num_active_;
  }
  return tenant;
}

void Tenants::Leave(Tenant& tenant) {
  SLUICE_CHECK(tenant.num_alive > 0);
  if (--tenant.num_alive > 0) return;
  active_weight_ -= tenant.policy.weight;
  if (--num_active_ == 0) active_weight_ = 0;  // no rounding is carried on
}

int32_t Tenants::FairSlots(const Tenant& tenant, int64_t num_slots) const {
  const double share = static_cast<double>(num_slots) * tenant.policy.weight /
                       std::max(active_weight_, tenant.policy.weight);
  return std::max(1, static_cast<int32_t>(share));
}

double Tenants::ShareOf(absl::string_view name) const {
  const double weight = policies_.Of(name).weight;
  const auto found = tenants_.find(name);
  const bool active = found != tenants_.end() && found->second.num_alive > 0;
  return weight / std::max(active_weight_ + (active ? 0 : weight), weight);
}

// Those that would begin at `least` in any case.
void Tenants::DropIdle(double least) {
  absl::erase_if(tenants_, [least](const auto& entry) {
    return entry.second.num_alive == 0 && entry.second.served <= least;
  });
}

}  // namespace sluice
