// Owner of work (tenant and weight), and its cost. Plain values.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/time/time.h"

namespace sluice {

// A tenant and its weight among the others.
struct WorkOwner {
  std::string tenant;
  double weight = 1;  // > 0
};

// Processor time that was spent on one request. Thread-safe.
class WorkMeter {
 public:
  void Add(absl::Duration work) { nanoseconds_ += absl::ToInt64Nanoseconds(work); }
  absl::Duration total() const { return absl::Nanoseconds(nanoseconds_.load()); }

 private:
  std::atomic<int64_t> nanoseconds_ = 0;
};

// Whom a call to another process is made for.
struct WorkFor {
  WorkOwner owner;
  std::shared_ptr<WorkMeter> meter;  // null: not counted
};

}  // namespace sluice
