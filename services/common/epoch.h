// The range of epochs. Pure functions.
#pragma once

#include <cstdint>

namespace sluice {

// The largest epoch. Stages refuse Open with a larger one, so that counting on from what a stage
// reports cannot wrap. No pipeline counts that far by itself. A stage that was opened under
// kMaxEpoch accepts any smaller epoch next, so that one wrong Open does not stop it for good.
inline constexpr uint64_t kMaxEpoch = uint64_t{1} << 62;

// Whether a stage whose newest epoch is `current` (0: none yet) may be opened under `next`, which is
// 1 to kMaxEpoch.
constexpr bool IsNewerEpoch(uint64_t next, uint64_t current) {
  return current < kMaxEpoch ? next > current : next < kMaxEpoch;
}

// What an orchestrator chooses after `newest`, the largest epoch that it knows of.
constexpr uint64_t EpochAfter(uint64_t newest) { return newest < kMaxEpoch ? newest + 1 : 1; }

}  // namespace sluice
