// Time that a stage has for opening: what was left of the orchestrator's own when it sent Open
// (`open_timeout_ms`). Everything that opening waits for ends at the same moment, so no stage waits
// longer than its caller. An immutable value.
#pragma once

#include <algorithm>
#include <cstdint>

#include "absl/time/time.h"
#include "kernels/deadline.h"
#include "services/common/steady_time.h"
#include "sluice/v1/stage.pb.h"

namespace sluice {

class OpenBudget {
 public:
  // No orchestrator waits longer; stands for a timeout that is not set, too.
  static constexpr absl::Duration kMost = absl::Minutes(10);

  // Of an Open that has just arrived.
  explicit OpenBudget(const v1::StageOpen& open) : OpenBudget(Timeout(open.open_timeout_ms())) {}
  explicit OpenBudget(absl::Duration timeout) : deadline_(SteadyTime::Now() + timeout) {}

  // Never infinite.
  SteadyTime deadline() const { return deadline_; }
  // The same, for waits on other ranks.
  Deadline ForRanks() const { return Deadline::After(deadline_ - SteadyTime::Now()); }

 private:
  static absl::Duration Timeout(uint32_t milliseconds) {
    return milliseconds == 0 ? kMost : std::min(absl::Milliseconds(milliseconds), kMost);
  }

  SteadyTime deadline_;
};

}  // namespace sluice
