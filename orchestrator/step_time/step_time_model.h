// What the steps of one model take, learned from those that were measured. Every decision that
// depends on time asks the same model:
//
//   Bound            when a step hangs
//   Expected         whether computing drafts, or asking a draft model for them, wins time
//   Price            how tenants share a step, and what processor time outside of steps is worth
//   TimeFor          whether a request can end before its deadline
//
// Measurements vary: a step may be held up by something else, and machines become slower and
// faster. So everything is a mean over the latest measurements, of which each counts as at most
// several times the mean before it.
//
// A pure state machine.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"
#include "orchestrator/scheduler/step_cost.h"
#include "services/watch/step_times.h"

namespace sluice {

// A step that was executed.
struct StepSample {
  int32_t positions = 0;   // that it computed, drafts included
  int32_t sequences = 0;   // in it
  int32_t rows = 0;        // positions that choose or score a token
  absl::Duration latency;  // from its sending to its results
  absl::Duration busy;     // of that, after the results of the step before
  // `busy`, and the time before its sending in which the replica had nothing to do because of it.
  absl::Duration cost;
  bool ahead = false;       // sent before the results of the step before had come
  bool after_idle = false;  // Step::after_idle

  // Every position chooses or scores a token, and the replica was at work before: what such a step
  // costs depends on its number of rows.
  bool goes_by_rows() const { return positions == rows && !after_idle; }
};

class StepTimeModel {
 public:
  // A measurement is forgotten after so many other steps: what was never measured, and what was
  // long ago, is tried again.
  static constexpr int64_t kForgottenAfter = 2048;

  // No step hangs before `hang_timeout`.
  explicit StepTimeModel(absl::Duration hang_timeout) : bounds_(hang_timeout) {}

  void Observe(const StepSample& sample);
  // A step exceeded its bound and is lost. The next bounds are twice as long, until a step
  // completes.
  void OnHang() { bounds_.GaveUp(); }

  // How long a step may take from its sending, `positions` being those of the steps ahead of it
  // included: at least `hang_timeout`, and several times what steps of this size have taken.
  absl::Duration Bound(int32_t positions) const { return bounds_.Bound(positions); }

  // Whether any step was measured in which every position chooses a token.
  bool knows_rows() const { return num_row_steps_ > 0; }
  // Seconds that such a step of `rows` rows takes: flat as long as memory is the limit, rising
  // where arithmetic is. Between the numbers of rows that were measured on either side; more than
  // ever measured take, until they are, what the most measured do. Of steps that were sent after
  // the results of the step before, or where none of this size were, of those sent ahead. REQUIRES:
  // knows_rows().
  double Expected(int32_t rows) const;
  // The same of steps that were sent ahead; where there were none, of the others.
  double ExpectedAhead(int32_t rows) const;

  // A line through what steps take in which every sequence has one position: what a step costs at
  // all, and each row more. By least squares of relative errors over the sizes that were seen, of
  // which each keeps its mean, so that what a lone sequence takes is still known after an hour of
  // full steps. Unknown until steps of different sizes were seen.
  StepCost Price() const;

  // For so many positions of a prompt and then, one after another, tokens, at the present load.
  // Steps that were never seen take no time.
  absl::Duration TimeFor(int32_t num_positions, int32_t num_tokens) const;

 private:
  // The mean of steps of about one size.
  struct Mean {
    double size = 0;
    double seconds = 0;
    int count = 0;
    int64_t latest = 0;  // step

    // Takes a measurement in, at the weight of one of the latest `most`. Returns how many times the
    // mean it is.
    double Add(double added_size, double added_seconds, int most);
  };
  // Rows are counted exactly up to 8 and in eighths of octaves beyond.
  static constexpr int kNumRowSizes = 8 + 8 * 16;
  using RowSizes = std::array<Mean, kNumRowSizes>;

  static int RowSizeOf(int32_t rows);
  bool IsFresh(const Mean& mean) const {
    return mean.count > 0 && num_row_steps_ - mean.latest <= kForgottenAfter;
  }
  // What is known of a size; null: nothing.
  const Mean* Known(int row_size) const;
  const Mean* KnownAhead(int row_size) const;
  // Between what `known` gives for the sizes around `rows`. REQUIRES: it is something for one of
  // them.
  template <class KnownOf>
  static double Between(int32_t rows, const KnownOf& known);
  void ObserveRows(const StepSample& sample);
  void ObservePrice(const StepSample& sample);

  StepTimes bounds_;
  RowSizes after_results_ = {}, ahead_ = {};
  int64_t num_row_steps_ = 0;
  // Of steps with 1, 2, 3 to 4, 5 to 8 sequences, and so on.
  std::array<Mean, 12> prices_ = {};
  Mean step_, prompt_position_;
};

}  // namespace sluice
