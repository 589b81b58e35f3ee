// How long steps take by their size, as measured, and how long one may take before it counts as
// hanging: at least the bound that was asked for, and several times what steps like it have taken.
//
// A pure state machine.
#pragma once

#include <array>

#include "absl/time/time.h"

namespace sluice {

class StepTimes {
 public:
  explicit StepTimes(absl::Duration least) : least_(least) {}

  // A step of so many positions took so long, from its sending.
  void Completed(int num_positions, absl::Duration time);

  // A step was given up. Each that follows may take twice as long, until one completes: what looks
  // like a hang may be a machine that is slower than ever.
  void GaveUp() { patience_ *= 2; }

  // For a step of so many positions, those of the steps ahead of it included.
  absl::Duration Bound(int num_positions) const;

 private:
  static constexpr int kNumSizes = 24;  // by power of two

  static int SizeOf(int num_positions);

  const absl::Duration least_;
  // The slowest of late among steps of a size; zero: none was seen.
  std::array<absl::Duration, kNumSizes> slowest_ = {};
  double patience_ = 1;
};

}  // namespace sluice
