// How long the replica takes for a request's own work, as seen of late: what estimates of a request's
// end are made of, beside the time until its turn.
//
// A pure state machine.
#pragma once

#include "absl/time/time.h"

namespace sluice {

class WorkRate {
 public:
  // A step of so many sequences and positions kept the replica busy for so long.
  void Observe(int num_sequences, int num_positions, absl::Duration time);

  // For that many positions of a prompt and, one after another, tokens. What was never seen takes no
  // time.
  absl::Duration TimeFor(int num_positions, int num_tokens) const;

 private:
  // Follows what it is told, an outlier not far.
  struct Mean {
    int count = 0;
    double seconds = 0;
    void Add(double observed);
  };

  Mean step_;
  Mean position_;  // of steps that are prompts above all
};

}  // namespace sluice
