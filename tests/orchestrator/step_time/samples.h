// Steps as they are measured, for tests.
#pragma once

#include <cstdint>

#include "absl/time/time.h"
#include "orchestrator/step_time/step_time_model.h"

namespace sluice {

// A step in which every sequence has one position, which chooses a token.
inline StepSample Decodes(int32_t sequences, absl::Duration time, bool ahead = false) {
  return {.positions = sequences,
          .sequences = sequences,
          .rows = sequences,
          .latency = time,
          .busy = time,
          .cost = time,
          .ahead = ahead};
}

}  // namespace sluice
