// Angles of rotary position embeddings (Su et al. 2021). Immutable, so safe to share among threads.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace sluice {

class RopeTable {
 public:
  // Pair i of a head turns by position * theta^(-2i/D), i = 0, 1, ..., D/2 - 1.
  // REQUIRES: head_dim (D) is even and >= 2, theta > 0.
  RopeTable(int head_dim, double theta);

  // D/2
  int pairs() const { return static_cast<int>(frequencies_.size()); }
  // Radians per position, by pair; falling.
  absl::Span<const double> frequencies() const { return frequencies_; }

  // cos[t][i] and sin[t][i], row-major [T, pairs()], of the angle of pair i at positions[t].
  // Computed in double and rounded once, so that a position's values depend on nothing else.
  // REQUIRES: both spans have T * pairs() elements, T = positions.size().
  void Fill(absl::Span<const int32_t> positions, absl::Span<float> cos,
            absl::Span<float> sin) const;

 private:
  std::vector<double> frequencies_;
};

}  // namespace sluice
