// Chooses a token from one row of logits. Not thread-safe: one for each thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "kernels/cpu/logit_passes.h"
#include "kernels/cpu/mass_select.h"
#include "kernels/sampling.h"

namespace sluice {

class alignas(64) RowSampler {
 public:
  // As Ops::Sample for one row of logits [V].
  SampledRow Sample(absl::Span<const float> logits, const SampleRow& row);

 private:
  // The tokens that may still be drawn, by ascending id; [count] of each.
  struct Candidates {
    std::vector<int32_t> ids;
    std::vector<float> logits;
    std::vector<double> weights;
    size_t count = 0;
  };

  void Edit(const SampleRow& row);
  // The temperature of this row, dynamic or not.
  double TemperatureFor(const SamplingOptions& options) const;
  SampledRow Largest(int num_top) const;
  // Draws from all of the row.
  SampledRow DrawFromAll(const SampleRow& row);
  // The tokens of all of the row that `row` asks for, whose weights add up to `total`.
  void TellTop(const SampleRow& row, double total, std::vector<TokenProbability>& told) const;
  // Fills candidates_ with what top-k, top-p and min-p keep.
  void KeepMostProbable(const SamplingOptions& options);
  // Lets through logits of at least `threshold`.
  void Gather(float threshold);
  float KthLargest(size_t k);
  void KeepTopP(double target);
  void KeepTypical(double typical_p);
  void KeepTopSigma(double num_deviations);
  void RemoveTopChoices(double threshold);
  // Keeps the candidates that `keeps(index)` names; asked once for each, in order.
  template <class Keeps>
  void KeepIf(Keeps keeps);
  double TotalWeight() const;
  SampledRow DrawFromCandidates(const SampleRow& row);

  absl::Span<const float> logits() const { return {logits_.data(), num_logits_}; }

  size_t num_logits_ = 0;
  std::vector<float> logits_;  // edited
  WeightOf weight_;            // of a logit, relative to the largest
  std::vector<double> run_sums_;
  Candidates candidates_;
  std::vector<double> keys_;
  MassScratch scratch_;
};

}  // namespace sluice
