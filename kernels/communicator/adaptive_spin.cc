#include "kernels/communicator/adaptive_spin.h"

#include <algorithm>

#include "kernels/spin_pause.h"
#include "kernels/usable_cpus.h"

namespace sluice {
namespace {

using Clock = Deadline::Clock;
using std::chrono::microseconds;
using std::chrono::nanoseconds;

// Longer than a decode step's ranks usually drift apart, yet little against the step.
constexpr Clock::duration kLongest = microseconds(50);
constexpr Clock::duration kLongestWhenCrowded = microseconds(1);
constexpr Clock::duration kShortest = nanoseconds(500);

}  // namespace

AdaptiveSpin::AdaptiveSpin(const Options& options)
    : looks_per_clock_reading_(options.looks_per_clock_reading),
      longest_(options.ranks_on_host <= UsableCpus() ? kLongest : kLongestWhenCrowded),
      length_(longest_) {}

bool AdaptiveSpin::Find(absl::FunctionRef<bool()> look) {
  const bool found = Spin(look);
  length_ = found ? std::min(longest_, 2 * length_) : std::max(kShortest, length_ / 2);
  return found;
}

bool AdaptiveSpin::Spin(absl::FunctionRef<bool()> look) const {
  const Clock::time_point end = Clock::now() + length_;
  do {
    for (int i = 0; i < looks_per_clock_reading_; ++i) {
      if (look()) return true;
      SpinPause();
    }
  } while (Clock::now() < end);
  return false;
}

}  // namespace sluice
