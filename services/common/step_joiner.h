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
#include "sluice/v1/activations.pb.h"

namespace sluice {

// Plan has step_id().
template <class Plan>
class StepJoiner {
 public:
  struct Step {
    Plan plan;
    v1::PushStep rows;
  };

  void AddPlan(Plan plan) {
    absl::MutexLock lock(&mutex_);
    if (!closed_) plans_.push_back(std::move(plan));
  }

  void AddRows(v1::PushStep rows) {
    absl::MutexLock lock(&mutex_);
    const uint64_t step_id = rows.step_id();
    if (!closed_) rows_.insert_or_assign(step_id, std::move(rows));
  }

  // The next step in the order of plans, once it is complete; nothing once closed.
  std::optional<Step> Next() {
    std::optional<Plan> plan = NextPlan();
    if (!plan.has_value()) return std::nullopt;
    std::optional<v1::PushStep> rows = RowsOf(plan->step_id());
    if (!rows.has_value()) return std::nullopt;
    return Step{*std::move(plan), *std::move(rows)};
  }

  // The same in two parts, for who can prepare something before the rows come.
  std::optional<Plan> NextPlan() {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(this, &StepJoiner::HasPlanOrClosed));
    if (closed_) return std::nullopt;
    Plan plan = std::move(plans_.front());
    plans_.pop_front();
    return plan;
  }
  std::optional<v1::PushStep> RowsOf(uint64_t step_id) {
    absl::MutexLock lock(&mutex_);
    wanted_ = step_id;
    mutex_.Await(absl::Condition(this, &StepJoiner::HasWantedOrClosed));
    if (closed_) return std::nullopt;
    return std::move(rows_.extract(step_id).mapped());
  }

  // Wakes who waits.
  void Close() {
    absl::MutexLock lock(&mutex_);
    closed_ = true;
  }

 private:
  bool HasPlanOrClosed() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return closed_ || !plans_.empty();
  }
  bool HasWantedOrClosed() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return closed_ || rows_.contains(wanted_);
  }

  absl::Mutex mutex_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<Plan> plans_ ABSL_GUARDED_BY(mutex_);
  std::map<uint64_t, v1::PushStep> rows_ ABSL_GUARDED_BY(mutex_);
  uint64_t wanted_ ABSL_GUARDED_BY(mutex_) = 0;  // the step whose rows RowsOf waits for
};

}  // namespace sluice
