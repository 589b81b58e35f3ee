// Angles of rotary position embeddings (Su et al. 2021), scaled as RopeConfig says. Immutable, so
// safe to share among threads.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "services/model/rope_config.h"

namespace sluice {

class RopeTable {
 public:
  // Pair i of the turned elements turns by position * frequency(i), i = 0, 1, ..., dim/2 - 1.
  // Without scaling that is theta^(-2i/dim). REQUIRES: `config` holds what RopeConfig promises.
  explicit RopeTable(const RopeConfig& config);

  // dim/2
  int pairs() const { return config_.dim / 2; }
  // Whether sequences of `length` positions turn by other angles than those no longer than the
  // model's original positions.
  bool TurnsByLength(int32_t length) const;
  // Radians per position, by pair, of a sequence of `length` positions.
  std::vector<double> Frequencies(int32_t length) const;

  // cos[t][i] and sin[t][i], row-major [T, pairs()], of the angle of pair i at positions[t] of a
  // sequence of `length` positions, times the attention factor. Computed in double and rounded
  // once, so that a position's values depend on nothing else. REQUIRES: both spans have T * pairs()
  // elements, T = positions.size().
  void Fill(absl::Span<const int32_t> positions, int32_t length, absl::Span<float> cos,
            absl::Span<float> sin) const;

 private:
  std::vector<double> Compute(int32_t length) const;

  const RopeConfig config_;
  const std::vector<double> frequencies_;  // of sequences no longer than original_positions
};

}  // namespace sluice
