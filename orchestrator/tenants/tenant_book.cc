#include "orchestrator/tenants/tenant_book.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "services/model/json_fields.h"

namespace sluice {

absl::Status TenantBook::Load() {
  if (file_.empty()) return absl::OkStatus();
  const absl::StatusOr<std::string> text = ReadTextFile(file_);
  if (!text.ok()) return text.status();
  absl::StatusOr<TenantRules> rules = ParseTenantRules(*text, file_);
  if (!rules.ok()) return rules.status();
  auto policies = std::make_shared<const TenantPolicies>(rules->Policies());
  absl::MutexLock lock(&mutex_);
  rules_ = *std::move(rules);
  policies_ = std::move(policies);
  return absl::OkStatus();
}

std::shared_ptr<const TenantPolicies> TenantBook::policies() const {
  absl::MutexLock lock(&mutex_);
  return policies_;
}

bool TenantBook::SeesAllRequests(const std::string& tenant) const {
  absl::MutexLock lock(&mutex_);
  return rules_.Of(tenant).sees_all_requests;
}

bool TenantBook::LoadsAdapters(const std::string& tenant) const {
  absl::MutexLock lock(&mutex_);
  return rules_.Of(tenant).loads_adapters;
}

// The number of bytes before the tenant keeps names and salts apart, whatever they contain.
std::string TenantBook::CacheDomain(const std::string& tenant,
                                    const std::string& cache_salt) const {
  absl::MutexLock lock(&mutex_);
  if (!cache_salt.empty() && rules_.Of(tenant).shares_prefixes) {
    return absl::StrCat("shared:", cache_salt);
  }
  return absl::StrCat(tenant.size(), ":", tenant, cache_salt);
}

std::string TenantBook::ClassOf(const std::string& tenant) const {
  absl::MutexLock lock(&mutex_);
  return rules_.named.contains(tenant) ? tenant : "default";
}

absl::Status TenantBook::CheckPriority(const std::string& tenant, int32_t priority) const {
  absl::MutexLock lock(&mutex_);
  const std::vector<int32_t>& accepted = rules_.Of(tenant).priorities;
  if (std::count(accepted.begin(), accepted.end(), priority) > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("priority is ", priority,
                                                 "; accepted for tenant \"", tenant,
                                                 "\": ", absl::StrJoin(accepted, ", ")));
}

}  // namespace sluice
