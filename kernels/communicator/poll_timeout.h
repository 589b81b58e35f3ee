// What poll(2) takes for a deadline.
#pragma once

#include <algorithm>

#include "absl/time/time.h"
#include "kernels/deadline.h"

namespace sluice {

// Milliseconds, rounded up, so that a deadline has passed when poll says so; a long one is split.
inline int PollTimeout(Deadline deadline) {
  const absl::Duration left = deadline.Left();
  if (left == absl::InfiniteDuration()) return -1;
  const absl::Duration rounded = absl::Ceil(left, absl::Milliseconds(1));
  return static_cast<int>(absl::ToInt64Milliseconds(std::min(rounded, absl::Hours(1))));
}

}  // namespace sluice
