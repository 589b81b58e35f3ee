// Joins what a stage needs for a step: the plan from the orchestrator and the hidden rows from the
// stage before, which come over different streams in any order. Thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "sluice/v1/tensor.pb.h"

namespace sluice {

// Plan has step_id().
template <class Plan>
class StepJoiner {
 public:
  struct Step {
    Plan plan;
    v1::Tensor hidden;
  };

  void AddPlan(Plan plan) {
    absl::MutexLock lock(&mutex_);
    if (!closed_) plans_.push_back(std::move(plan));
  }

  void AddHidden(uint64_t step_id, v1::Tensor hidden) {
    absl::MutexLock lock(&mutex_);
    if (!closed_) hidden_.insert_or_assign(step_id, std::move(hidden));
  }

  // The next step in the order of plans, once it is complete; nothing once closed.
  std::optional<Step> Next() {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(this, &StepJoiner::HasNextOrClosed));
    if (closed_) return std::nullopt;
    Plan plan = std::move(plans_.front());
    plans_.pop_front();
    auto hidden = hidden_.extract(plan.step_id());
    return Step{std::move(plan), std::move(hidden.mapped())};
  }

  // Wakes Next().
  void Close() {
    absl::MutexLock lock(&mutex_);
    closed_ = true;
  }

 private:
  bool HasNextOrClosed() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return closed_ || (!plans_.empty() && hidden_.contains(plans_.front().step_id()));
  }

  absl::Mutex mutex_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<Plan> plans_ ABSL_GUARDED_BY(mutex_);
  std::map<uint64_t, v1::Tensor> hidden_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sluice
