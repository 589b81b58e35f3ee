#include "orchestrator/scheduler/tenants.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
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

void Tenants::RefreshPolicies() {
  if (!source_) return;
  std::shared_ptr<const TenantPolicies> policies = source_();
  if (policies == given_ || policies == nullptr) return;
  given_ = std::move(policies);
  policies_ = *given_;
  active_weight_ = 0;
  for (auto& [name, tenant] : tenants_) {
    tenant.policy = policies_.Of(name);
    if (tenant.num_alive > 0) active_weight_ += tenant.policy.weight;
  }
}

Tenant& Tenants::Account(absl::string_view name, double least) {
  if (tenants_.size() >= kMaxRemembered && !tenants_.contains(name)) DropIdle(least);
  const auto [it, added] = tenants_.try_emplace(name);
  Tenant& tenant = it->second;
  if (added) {
    tenant.name = std::string(name);
    tenant.serial = ++last_serial_;
    tenant.policy = policies_.Of(name);
  }
  if (tenant.num_alive == 0) tenant.served = std::max(tenant.served, least);
  return tenant;
}

void Tenants::ChargeIdle(absl::string_view name, double tokens, double least) {
  Tenant& tenant = Account(name, least);
  Charge(tenant, tokens);
  if (num_active_ == 0) RaiseStart(tenant.served);
}

Tenant& Tenants::Enter(absl::string_view name, double least) {
  Tenant& tenant = Account(name, least);
  ++num_alive_;
  if (tenant.num_alive++ == 0) {
    active_weight_ += tenant.policy.weight;
    ++num_active_;
  }
  return tenant;
}

void Tenants::Leave(Tenant& tenant) {
  SLUICE_CHECK(tenant.num_alive > 0);
  --num_alive_;
  if (--tenant.num_alive > 0) return;
  active_weight_ -= tenant.policy.weight;
  if (--num_active_ == 0) active_weight_ = 0;  // no rounding is carried on
}

Tenant* Tenants::Find(absl::string_view name) {
  const auto it = tenants_.find(name);
  return it == tenants_.end() ? nullptr : &it->second;
}

const Tenant* Tenants::Find(absl::string_view name) const {
  const auto it = tenants_.find(name);
  return it == tenants_.end() ? nullptr : &it->second;
}

void Tenants::RaiseStart(double served) { start_ = std::max(start_, served); }

int32_t Tenants::FairSlots(const Tenant& tenant, int64_t num_slots) const {
  const double share = static_cast<double>(num_slots) * tenant.policy.weight /
                       std::max(active_weight_, tenant.policy.weight);
  return std::max(1, static_cast<int32_t>(share));
}

double Tenants::ShareOf(absl::string_view name) const {
  const double weight = policies_.Of(name).weight;
  const Tenant* const tenant = Find(name);
  const bool active = tenant != nullptr && tenant->num_alive > 0;
  return weight / std::max(active_weight_ + (active ? 0 : weight), weight);
}

// Those that would start at `least` in any case.
void Tenants::DropIdle(double least) {
  absl::erase_if(tenants_, [least](const auto& entry) {
    return entry.second.num_alive == 0 && entry.second.served <= least;
  });
}

absl::Status Tenants::CheckIntegrity() const {
  int64_t num_alive = 0;
  int32_t num_active = 0;
  double weight = 0;
  for (const auto& [name, tenant] : tenants_) {
    num_alive += tenant.num_alive;
    if (tenant.num_running + tenant.num_waiting > tenant.num_alive) {
      return absl::InternalError(absl::StrCat("tenant \"", name, "\" has ", tenant.num_alive,
                                              " sequences, ", tenant.num_running, " running and ",
                                              tenant.num_waiting, " waiting"));
    }
    if (tenant.num_alive == 0) continue;
    ++num_active;
    weight += tenant.policy.weight;
  }
  constexpr double kRounding = 1e-3;  // of a sum that changes for as long as a server runs
  if (num_alive == num_alive_ && num_active == num_active_ &&
      std::abs(weight - active_weight_) <= kRounding * (1 + weight)) {
    return absl::OkStatus();
  }
  return absl::InternalError(absl::StrCat(num_active, " tenants of weight ", weight, " have ",
                                          num_alive, " sequences; counted as ", num_active_,
                                          " of weight ", active_weight_, " with ", num_alive_));
}

}  // namespace sluice
