// The cost of a step by the number of its positions. Plain values.
#pragma once

namespace sluice {

// In seconds, of steps in which every sequence has one position. All zero: not known yet.
struct StepCost {
  double fixed = 0;
  double per_position = 0;

  bool known() const { return fixed > 0 && per_position > 0; }
  double Of(double num_positions) const { return fixed + per_position * num_positions; }
};

}  // namespace sluice
