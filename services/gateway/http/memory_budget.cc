#include "services/gateway/http/memory_budget.h"

namespace sluice::http {

MemoryBudget::Charge& MemoryBudget::Charge::operator=(Charge&& other) noexcept {
  if (this == &other) return *this;
  if (budget_ != nullptr) budget_->Change(tenant_, bytes_, 0);
  budget_ = std::exchange(other.budget_, nullptr);
  tenant_ = std::move(other.tenant_);
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

MemoryBudget::Charge::~Charge() {
  if (budget_ != nullptr) budget_->Change(tenant_, bytes_, 0);
}

bool MemoryBudget::Charge::Resize(uint64_t bytes) {
  if (budget_ == nullptr) return false;
  if (!budget_->Change(tenant_, bytes_, bytes)) return false;
  bytes_ = bytes;
  return true;
}

std::optional<MemoryBudget::Charge> MemoryBudget::Take(absl::string_view tenant, uint64_t bytes) {
  Charge charge;
  charge.tenant_ = std::string(tenant);
  if (!Change(charge.tenant_, 0, bytes)) return std::nullopt;
  charge.budget_ = this;
  charge.bytes_ = bytes;
  return charge;
}

uint64_t MemoryBudget::used() const {
  absl::MutexLock lock(&mutex_);
  return used_;
}

bool MemoryBudget::Change(const std::string& tenant, uint64_t from, uint64_t to) {
  absl::MutexLock lock(&mutex_);
  const auto held = by_tenant_.try_emplace(tenant, 0).first;
  const uint64_t of_tenant = held->second - from + to;
  const uint64_t of_others = used_ - held->second;
  const bool fits = to <= from || (of_tenant <= capacity_ && of_others <= capacity_ - of_tenant &&
                                   of_tenant <= capacity_ - of_tenant - of_others);
  if (fits) {
    used_ = of_others + of_tenant;
    held->second = of_tenant;
  }
  if (held->second == 0) by_tenant_.erase(held);
  return fits;
}

}  // namespace sluice::http
