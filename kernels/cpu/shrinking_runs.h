// Cuts a loop of many small units into runs for threads to take one after another: half of all
// units in one long run per thread, then half of what is left, and so on down to single units. Long
// runs read memory in long streams and cost little to hand out; the short ones at the end let all
// threads finish together. A value.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace sluice {

class ShrinkingRuns {
 public:
  // num_units >= 0, num_threads >= 1.
  ShrinkingRuns(int64_t num_units, int num_threads)
      : num_units_(num_units), num_threads_(num_threads) {
    const auto units_per_thread = static_cast<uint64_t>(num_units / num_threads);
    if (num_threads > 1 && units_per_thread > 0) rounds_ = std::bit_width(units_per_thread) - 1;
  }

  int64_t count() const {
    if (num_threads_ == 1) return std::min<int64_t>(num_units_, 1);
    return rounds_ * num_threads_ + LeftAfter(rounds_);
  }

  // The first unit of run `index`, 0 <= index <= count(); Begin(count()) is num_units.
  int64_t Begin(int64_t index) const {
    if (num_threads_ == 1) return index * num_units_;
    const int64_t round = std::min(index / num_threads_, rounds_);
    const int64_t in_round = index - round * num_threads_;
    const int64_t start = num_units_ - LeftAfter(round);
    if (round == rounds_) return start + in_round;
    return start + (LeftAfter(round) - LeftAfter(round + 1)) * in_round / num_threads_;
  }

 private:
  int64_t LeftAfter(int64_t round) const { return num_units_ >> round; }

  int64_t num_units_;
  int64_t num_threads_;
  int64_t rounds_ = 0;  // of long runs; single units follow
};

}  // namespace sluice
