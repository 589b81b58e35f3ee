// The tenants' rules that are in force, read from a file again whenever told to. Thread-safe.
#pragma once

#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "orchestrator/tenants/tenant_rules.h"
#include "services/work/work_owner.h"

namespace sluice {

class TenantBook {
 public:
  // Without a file ("") all tenants are alike, and may ask for priority 0 alone.
  explicit TenantBook(std::string file) : file_(std::move(file)) {}

  // Reads the file. Where that fails, as ReadTextFile and ParseTenantRules do, the rules stay what
  // they were.
  absl::Status Load();

  // For SchedulerOptions::tenant_policies: the same pointer while nothing changes.
  std::shared_ptr<const TenantPolicies> policies() const;

  // Whom work for a tenant is done for, in other processes.
  WorkOwner OwnerFor(const std::string& tenant) const {
    return {.tenant = tenant, .weight = policies()->Of(tenant).weight};
  }

  // INVALID_ARGUMENT naming the value and those that the tenant may ask for.
  absl::Status CheckPriority(const std::string& tenant, int32_t priority) const;

  // Whether it may be told of other tenants' requests.
  bool SeesAllRequests(const std::string& tenant) const;
  // Whether it may load and unload adapters.
  bool LoadsAdapters(const std::string& tenant) const;

  // Among which requests the prefixes are shared that the server keeps: those of one tenant with
  // the same cache_salt ("": none). With a salt, also those of other tenants, where the rules of
  // both let them. What an answer says of cached tokens would else tell a tenant whether another's
  // text is kept.
  std::string CacheDomain(const std::string& tenant, const std::string& cache_salt) const;

  // For metrics, whose labels are few: its name where the file has it, else "default".
  std::string ClassOf(const std::string& tenant) const;

 private:
  const std::string file_;

  mutable absl::Mutex mutex_;
  TenantRules rules_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<const TenantPolicies> policies_ ABSL_GUARDED_BY(mutex_) =
      std::make_shared<const TenantPolicies>();
};

}  // namespace sluice
