// Bytes that requests may hold at a time, shared out between tenants. A tenant may take what leaves
// as much again for others: one alone gets half of the budget, the next half of what is left, so
// that no tenant can take the last of it. Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"

namespace sluice::http {

class MemoryBudget {
 public:
  // What one request holds; given back when it is destroyed. Outlived by its budget.
  class Charge {
   public:
    Charge() = default;
    Charge(Charge&& other) noexcept { *this = std::move(other); }
    Charge& operator=(Charge&& other) noexcept;
    ~Charge();

    uint64_t bytes() const { return bytes_; }
    // False, and nothing changes, where there is no room for more. Less is always possible.
    bool Resize(uint64_t bytes);

   private:
    friend class MemoryBudget;
    MemoryBudget* budget_ = nullptr;
    std::string tenant_;
    uint64_t bytes_ = 0;
  };

  explicit MemoryBudget(uint64_t capacity) : capacity_(capacity) {}
  MemoryBudget(const MemoryBudget&) = delete;
  MemoryBudget& operator=(const MemoryBudget&) = delete;

  // Nothing where there is no room.
  std::optional<Charge> Take(absl::string_view tenant, uint64_t bytes);

  // The most that one request can ever get.
  uint64_t most_of_one() const { return capacity_ / 2; }
  uint64_t used() const;

 private:
  bool Change(const std::string& tenant, uint64_t from, uint64_t to);

  const uint64_t capacity_;
  mutable absl::Mutex mutex_;
  uint64_t used_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::string, uint64_t> by_tenant_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sluice::http
