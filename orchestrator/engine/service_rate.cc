#include "orchestrator/engine/service_rate.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace sluice {
namespace {

// What was seen so long ago counts a third.
constexpr double kMemorySeconds = 10;
// Fewer starts, or a shorter time, are no rate.
constexpr double kFewestStarts = 3;
constexpr double kShortestSeconds = 0.05;

}  // namespace

void ServiceRate::Observe(SteadyTime now, uint64_t num_started, int32_t num_waiting) {
  const double seconds = waited_ ? std::max(absl::ToDoubleSeconds(now - last_), 0.0) : 0.0;
  const uint64_t started = num_started - std::exchange(last_started_, num_started);
  last_ = now;
  if (std::exchange(waited_, num_waiting > 0)) {
    const double fading = std::exp(-seconds / kMemorySeconds);
    starts_ = starts_ * fading + static_cast<double>(started);
    seconds_ = seconds_ * fading + seconds;
  }
}

std::optional<absl::Duration> ServiceRate::TimeFor(double num_starts) const {
  if (num_starts <= 0) return absl::ZeroDuration();
  if (starts_ < kFewestStarts || seconds_ < kShortestSeconds) return std::nullopt;
  return absl::Seconds(num_starts * seconds_ / starts_);
}

}  // namespace sluice
