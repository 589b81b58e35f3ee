// Keeps working memory between calls: each borrower has an object to itself for a while.
// Thread-safe.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace sluice {

template <typename T>
class ObjectPool {
 public:
  // At most `max_idle` unused objects are kept.
  explicit ObjectPool(size_t max_idle) : max_idle_(max_idle) {}

  // An object on loan; goes back when it ends. The pool must outlive it.
  class Lease {
   public:
    Lease(ObjectPool& pool, std::unique_ptr<T> object) : pool_(pool), object_(std::move(object)) {}
    ~Lease() { pool_.Return(std::move(object_)); }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;

    T& operator*() const { return *object_; }

   private:
    ObjectPool& pool_;
    std::unique_ptr<T> object_;
  };

  // An idle object, or what `make` returns, a unique_ptr<T>.
  template <typename Make>
  Lease Borrow(Make make) {
    {
      absl::MutexLock lock(&mutex_);
      if (!idle_.empty()) {
        std::unique_ptr<T> object = std::move(idle_.back());
        idle_.pop_back();
        return Lease(*this, std::move(object));
      }
    }
    return Lease(*this, make());
  }

 private:
  void Return(std::unique_ptr<T> object) {
    absl::MutexLock lock(&mutex_);
    if (idle_.size() < max_idle_) idle_.push_back(std::move(object));
  }

  const size_t max_idle_;
  absl::Mutex mutex_;
  std::vector<std::unique_ptr<T>> idle_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sluice
