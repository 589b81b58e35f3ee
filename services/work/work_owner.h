// Owner of work (tenant and weight), its cost, and what it may cost.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "services/messages/error_reason.h"

namespace sluice {

// A tenant and its weight among the others.
struct WorkOwner {
  std::string tenant;
  double weight = 1;  // > 0
};

// RESOURCE_EXHAUSTED with the reason kRequestWorkExceeded: one request's work outside of steps has taken `work`, more than `max`.
inline absl::Status TooMuchWork(absl::Duration work, absl::Duration max) {
  return WithErrorReason(
      absl::ResourceExhaustedError(absl::StrCat(
          "max_request_work: masks, compiling, chat template and tokenizing of this request have "
          "taken ",
          absl::FormatDuration(absl::Trunc(work, absl::Milliseconds(1))),
          " of processor time; accepted: up to ", absl::FormatDuration(max), " a request")),
      kRequestWorkExceeded);
}

// Processor time that was spent on one request, and what it may take. Thread-safe.
class WorkMeter {
 public:
  // `bill`, which may be empty, is told of all that is added.
  explicit WorkMeter(absl::Duration max = absl::InfiniteDuration(),
                     std::function<void(absl::Duration work)> bill = nullptr)
      : max_(max), bill_(std::move(bill)) {}

  void Add(absl::Duration work) {
    if (work <= absl::ZeroDuration()) return;
    nanoseconds_ += absl::ToInt64Nanoseconds(work);
    if (bill_ != nullptr) bill_(work);
  }
  absl::Duration total() const { return absl::Nanoseconds(nanoseconds_.load()); }
  // What may still be spent.
  absl::Duration left() const { return std::max(absl::ZeroDuration(), max_ - total()); }
  // OK, or RESOURCE_EXHAUSTED once more was spent than may be.
  absl::Status status() const {
    const absl::Duration work = total();
    return work <= max_ ? absl::OkStatus() : TooMuchWork(work, max_);
  }

 private:
  const absl::Duration max_;
  const std::function<void(absl::Duration work)> bill_;
  std::atomic<int64_t> nanoseconds_ = 0;
};

// Whom a call to another process is made for.
struct WorkFor {
  WorkOwner owner;
  std::shared_ptr<WorkMeter> meter;  // null: not counted, and not bounded

  // What the call may take.
  absl::Duration left() const {
    return meter == nullptr ? absl::InfiniteDuration() : meter->left();
  }
  // Counts what the call has taken. RESOURCE_EXHAUSTED once that is more than the request may take.
  absl::Status Add(absl::Duration work) const {
    if (meter == nullptr) return absl::OkStatus();
    meter->Add(work);
    return meter->status();
  }
};

}  // namespace sluice
