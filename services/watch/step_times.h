// Measured duration of steps by their size, and the bound after which a step counts as hanging: at
// least the bound given, and several times the duration of steps of its size.
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
