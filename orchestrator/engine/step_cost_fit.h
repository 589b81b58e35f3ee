// What steps cost, learned from what they take: means by the size of steps, each of which follows the
// steps of its size, and a line through them by least squares of relative errors. A size that is not
// seen for a while keeps its mean, so that what a lone sequence takes is still known after an hour
// of full steps; it only moves along a little when steps of other sizes become slower or faster.
//
// A pure state machine.
#pragma once

#include <array>

#include "absl/time/time.h"
#include "orchestrator/scheduler/step_cost.h"

namespace sluice {

class StepCostFit {
 public:
  // A step of so many sequences with one position each kept the replica busy for so long.
  void Observe(int num_positions, absl::Duration time);

  // Unknown until steps of different sizes were seen.
  StepCost current() const;

 private:
  // Of steps with 1, 2, 3 to 4, 5 to 8 positions, and so on.
  struct Size {
    int count = 0;
    double positions = 0, seconds = 0;  // means
  };
  std::array<Size, 12> sizes_;
};

}  // namespace sluice
