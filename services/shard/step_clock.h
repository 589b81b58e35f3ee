// Accounts for a shard's time: computing steps, and waiting for the next step while sequences are
// in flight; of the latter, the part in which other stages computed. Sums cover all sessions of a
// process.
//
// One thread marks; any may read the sums.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <optional>

#include "services/common/steady_time.h"

namespace sluice {

class StepClock {
 public:
  struct Times {
    uint64_t busy_ns = 0;
    uint64_t gap_ns = 0;
    uint64_t gap_computed_ns = 0;  // of gap_ns
  };

  // A session begins: what came before it is no gap.
  void Begin() { last_end_.reset(); }

  // All of a step is there, for which others have computed so long since this shard had its rows,
  // or since their beginning. `after_idle`: no sequence was in flight meanwhile.
  void StepBegins(SteadyTime now, bool after_idle, absl::Duration computed) {
    if (last_end_.has_value() && !after_idle) {
      const absl::Duration gap = now - *last_end_;
      Add(gap_ns_, gap);
      Add(gap_computed_ns_, std::min(gap, computed));
    }
    begin_ = now;
  }
  // Its result is on its way.
  void StepEnds(SteadyTime now) {
    Add(busy_ns_, now - begin_);
    last_end_ = now;
  }

  Times times() const {
    return {.busy_ns = busy_ns_, .gap_ns = gap_ns_, .gap_computed_ns = gap_computed_ns_};
  }

 private:
  static void Add(std::atomic<uint64_t>& sum, absl::Duration time) {
    sum += static_cast<uint64_t>(absl::ToInt64Nanoseconds(time));
  }

  SteadyTime begin_;
  std::optional<SteadyTime> last_end_;
  std::atomic<uint64_t> busy_ns_ = 0;
  std::atomic<uint64_t> gap_ns_ = 0;
  std::atomic<uint64_t> gap_computed_ns_ = 0;
};

}  // namespace sluice
