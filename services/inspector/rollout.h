// Attention rollout (Abnar and Zuidema 2020, "Quantifying Attention Flow in Transformers", section 4): how
// much of each input is in what a layer makes of each position, given what all layers up to it attend to.
// Not thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace sluice {

class Rollout {
 public:
  explicit Rollout(int64_t num_positions);

  // Goes through the next layer: `mean` [n, n] is the mean of its heads' weights, row by row, zero where
  // a row looks at none. Half of what a position becomes is what it was: the residual connection.
  void Add(absl::Span<const double> mean);

  // [n, n], of all layers so far; without any, every position is itself. Rows add up to 1.
  absl::Span<const double> flow() const { return flow_; }

 private:
  const int64_t num_positions_;
  std::vector<double> flow_;
};

}  // namespace sluice
