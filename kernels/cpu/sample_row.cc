#include "kernels/cpu/sample_row.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "kernels/check.h"

namespace sluice {
namespace {

// A float that is certainly not above the logit whose weight is `weight`, rounding included.
float LogitOfWeight(double weight, const WeightOf& of) {
  const double logit = of.largest + std::log(weight) / of.inverse_temperature;
  const double slack = 1e-12 * (std::abs(logit) + std::abs(double{of.largest}));
  const auto bound =
      static_cast<float>(std::max(logit - slack, double{std::numeric_limits<float>::lowest()}));
  return std::nextafter(bound, -HUGE_VALF);
}

// Smaller for larger logits; 0 and -0 are alike.
uint32_t FallingKey(float logit) {
  const auto bits = std::bit_cast<uint32_t>(logit == 0 ? 0.0F : logit);
  const uint32_t rising = (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
  return ~rising;
}

SampledRow Failed(SampleError error, int64_t id = 0) {
  return {.error = error, .token = {.id = static_cast<int32_t>(id)}, .top = {}};
}

// Indices of the `count` most probable tokens that are not forbidden, by falling logit, then ascending.
// Packed into integers, which sort several times as fast as indices by what they point at.
std::vector<uint32_t> TopOf(absl::Span<const float> logits, size_t count) {
  constexpr size_t kFewPart = 16;
  std::vector<uint64_t> keys;
  keys.reserve(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] > -HUGE_VALF) keys.push_back(uint64_t{FallingKey(logits[i])} << 32 | i);
  }
  count = std::min(count, keys.size());
  const auto end = keys.begin() + static_cast<ptrdiff_t>(count);
  if (count < keys.size() / kFewPart) {
    std::partial_sort(keys.begin(), end, keys.end());
  } else {
    std::nth_element(keys.begin(), end, keys.end());
    std::sort(keys.begin(), end);
  }
  return {keys.begin(), end};  // the lower halves
}

}  // namespace

SampledRow RowSampler::Sample(absl::Span<const float> logits, const SampleRow& row) {
  num_logits_ = logits.size();
  const auto size = static_cast<int64_t>(num_logits_);
  logits_.resize(num_logits_);
  const uint32_t* allowed = row.allowed.empty() ? nullptr : row.allowed.data();
  const int64_t bad = CopyAllowed(logits.data(), size, allowed, logits_.data());
  if (bad < size) return Failed(SampleError::kNotFinite, bad);
  Edit(row);
  weight_ = {.largest = LargestLogit(logits_.data(), size)};
  if (weight_.largest == -HUGE_VALF) return Failed(SampleError::kNothingLeft);

  const SamplingOptions& options = *row.options;
  const double temperature = TemperatureFor(options);
  if (temperature == 0) return Largest(row.num_top);
  weight_.inverse_temperature = 1 / temperature;
  const bool all = options.top_k == 0 && options.top_p == 1 && options.min_p == 0 &&
                   options.typical_p == 1 && options.top_n_sigma == 0 &&
                   row.xtc_uniform >= options.xtc_probability;
  if (all) return DrawFromAll(row);
  KeepMostProbable(options);
  if (options.typical_p < 1) KeepTypical(options.typical_p);
  if (options.top_n_sigma > 0) KeepTopSigma(options.top_n_sigma);
  if (row.xtc_uniform < options.xtc_probability) RemoveTopChoices(options.xtc_threshold);
  return DrawFromCandidates(row);
}

void RowSampler::Edit(const SampleRow& row) {
  const double repetition = row.options->repetition_penalty;
  for (const LogitEdit& edit : row.edits) {
    SLUICE_CHECK(edit.id >= 0 && static_cast<size_t>(edit.id) < num_logits_);
    double logit = double{logits_[edit.id]} + edit.bias;
    if (edit.repeated) logit = logit > 0 ? logit / repetition : logit * repetition;
    logits_[edit.id] = static_cast<float>(logit - edit.penalty);
  }
}

double RowSampler::TemperatureFor(const SamplingOptions& options) const {
  const double temperature = options.temperature, range = options.dynatemp_range;
  if (range == 0) return temperature;
  const auto size = static_cast<int64_t>(num_logits_);
  const int64_t count = MomentOf(logits_.data(), size, 0, 1).count;
  double share = 0;
  if (count > 1) {
    std::vector<double> run_sums(size / kWeightRun + 1);
    const double total = WeightSums(logits_.data(), size, weight_, run_sums.data());
    const double entropy = std::log(total) - WeightedLogSum(logits_.data(), size, weight_) / total;
    share = std::clamp(entropy / std::log(static_cast<double>(count)), 0.0, 1.0);
  }
  return temperature - range + 2 * range * std::pow(share, double{options.dynatemp_exponent});
}

SampledRow RowSampler::Largest(int num_top) const {
  const auto size = static_cast<int64_t>(num_logits_);
  const int64_t id = FirstEqual(logits_.data(), size, weight_.largest);
  SampledRow result{.token = {static_cast<int32_t>(id), 1}};
  if (num_top > 0) result.top.push_back(result.token);
  return result;
}

SampledRow RowSampler::DrawFromAll(const SampleRow& row) {
  const auto size = static_cast<int64_t>(num_logits_);
  run_sums_.resize(size / kWeightRun + 1);
  const double total = WeightSums(logits_.data(), size, weight_, run_sums_.data());
  const double target = row.token_uniform * total;
  double before = 0;
  int64_t begin = 0;
  size_t run = 0;
  // The run in which the target is passed, else the last one.
  while (begin + kWeightRun < size && before + run_sums_[run] <= target) {
    before += run_sums_[run++];
    begin += kWeightRun;
  }
  std::vector<double>& weights = candidates_.weights;
  weights.resize(kWeightRun);
  const int64_t length = std::min(kWeightRun, size - begin);
  const auto weigh = [&] { Weights(logits_.data() + begin, length, weight_, weights.data()); };
  weigh();
  int64_t chosen = -1;
  for (int64_t i = 0; i < length && before <= target; ++i) {
    before += weights[i];
    if (weights[i] > 0) chosen = i;
  }
  while (chosen < 0) {  // rounding put the target behind the last token of any weight
    begin -= kWeightRun;
    SLUICE_CHECK(begin >= 0);
    weigh();
    for (int64_t i = 0; i < kWeightRun; ++i) chosen = weights[i] > 0 ? i : chosen;
  }
  SampledRow result;
  result.token = {static_cast<int32_t>(begin + chosen), weights[chosen] / total};
  if (row.num_top > 0) TellTop(row, total, result.top);
  return result;
}

// Weighs them in runs: one by one takes as long as sorting them all.
void RowSampler::TellTop(const SampleRow& row, double total,
                         std::vector<TokenProbability>& told) const {
  const std::vector<uint32_t> top = TopOf(logits(), row.num_top);
  std::vector<float> logits;
  std::vector<double> weights(top.size());
  logits.reserve(top.size());
  told.reserve(top.size());
  for (const uint32_t id : top) logits.push_back(logits_[id]);
  Weights(logits.data(), static_cast<int64_t>(logits.size()), weight_, weights.data());
  for (size_t i = 0; i < top.size(); ++i) {
    told.push_back({static_cast<int32_t>(top[i]), weights[i] / total});
  }
}

void RowSampler::Gather(float threshold) {
  Candidates& found = candidates_;
  found.ids.resize(num_logits_ + kGatherPadding);
  found.logits.resize(num_logits_ + kGatherPadding);
  found.count = GatherAtLeast(logits_.data(), static_cast<int64_t>(num_logits_), threshold,
                              found.ids.data(), found.logits.data());
  found.weights.resize(std::max(found.weights.size(), found.count));
  Weights(found.logits.data(), static_cast<int64_t>(found.count), weight_, found.weights.data());
}

float RowSampler::KthLargest(size_t k) {
  constexpr size_t kMostInHeap = 256;
  const std::greater<> larger;
  std::vector<float> largest;
  if (k > kMostInHeap) {
    largest = logits_;
    std::nth_element(largest.begin(), largest.begin() + static_cast<ptrdiff_t>(k - 1),
                     largest.end(), larger);
    return largest[k - 1];
  }
  largest.assign(logits_.begin(), logits_.begin() + static_cast<ptrdiff_t>(k));
  std::make_heap(largest.begin(), largest.end(), larger);  // the least of them in front
  for (const float logit : logits().subspan(k)) {
    if (logit > largest.front()) [[unlikely]] {
      std::pop_heap(largest.begin(), largest.end(), larger);
      largest.back() = logit;
      std::push_heap(largest.begin(), largest.end(), larger);
    }
  }
  return largest.front();
}

void RowSampler::KeepMostProbable(const SamplingOptions& options) {
  constexpr float kLowest = std::numeric_limits<float>::lowest();  // lets all but -infinity through
  const bool limited = options.top_k > 0 && static_cast<size_t>(options.top_k) < num_logits_;
  float threshold = limited ? std::max(KthLargest(options.top_k), kLowest) : kLowest;
  double target = HUGE_VAL;  // of top-p: the mass to reach
  if (options.top_p < 1 && !limited) {
    const auto size = static_cast<int64_t>(num_logits_);
    run_sums_.resize(size / kWeightRun + 1);
    const double total = WeightSums(logits_.data(), size, weight_, run_sums_.data());
    target = options.top_p * total;
    // All tokens below this weight together weigh less than what the nucleus leaves out.
    const double least = (1 - double{options.top_p}) * total / static_cast<double>(size) / 2;
    threshold = std::max(threshold, LogitOfWeight(least, weight_));
  }
  if (options.min_p > 0 && !limited) {
    threshold = std::max(threshold, LogitOfWeight(options.min_p, weight_));
  }
  Gather(threshold);
  if (options.top_p < 1 && limited) target = options.top_p * TotalWeight();
  if (target < HUGE_VAL) KeepTopP(target);
  const double least = options.min_p;  // the largest weight is 1
  if (least > 0) KeepIf([&](size_t i) { return candidates_.weights[i] >= least; });
}

void RowSampler::KeepTopP(double target) {
  keys_.assign(candidates_.logits.begin(),
               candidates_.logits.begin() + static_cast<ptrdiff_t>(candidates_.count));
  MassCut cut = SelectMass(keys_, absl::MakeSpan(candidates_.weights).first(candidates_.count),
                           target, scratch_);
  KeepIf([&](size_t i) { return cut.Takes(keys_[i]); });
}

void RowSampler::KeepTypical(double typical_p) {
  const Candidates& now = candidates_;
  const double total = TotalWeight();
  // With s = (logit - largest) / temperature, -log(p) - entropy is mean(s) - s.
  const auto scaled = [&](size_t i) {
    return (double{now.logits[i]} - weight_.largest) * weight_.inverse_temperature;
  };
  double mean = 0;
  for (size_t i = 0; i < now.count; ++i) {
    if (now.weights[i] > 0) mean += now.weights[i] * scaled(i);
  }
  mean /= total;
  keys_.resize(now.count);
  for (size_t i = 0; i < now.count; ++i) keys_[i] = -std::abs(mean - scaled(i));
  MassCut cut =
      SelectMass(keys_, absl::MakeSpan(now.weights).first(now.count), typical_p * total, scratch_);
  KeepIf([&](size_t i) { return cut.Takes(keys_[i]); });
}

void RowSampler::KeepTopSigma(double num_deviations) {
  const auto size = static_cast<int64_t>(num_logits_);
  const Moment first = MomentOf(logits_.data(), size, 0, 1);
  const double mean = first.sum / static_cast<double>(first.count);
  const Moment second = MomentOf(logits_.data(), size, mean, 2);
  const double deviation = std::sqrt(second.sum / static_cast<double>(second.count));
  const double least = weight_.largest - num_deviations * deviation;
  KeepIf([&](size_t i) { return candidates_.logits[i] >= least; });
}

void RowSampler::RemoveTopChoices(double threshold) {
  const double least = threshold * TotalWeight();
  const Candidates& now = candidates_;
  size_t last = now.count;  // the least probable of the top choices
  for (size_t i = 0; i < now.count; ++i) {
    const bool top = now.weights[i] >= least;
    if (top && (last == now.count || now.logits[i] <= now.logits[last])) last = i;
  }
  if (last == now.count) return;
  const float logit = now.logits[last];
  KeepIf([&](size_t i) { return now.logits[i] < logit || i == last; });
}

template <class Keeps>
void RowSampler::KeepIf(Keeps keeps) {
  constexpr size_t kRun = 16;
  Candidates& all = candidates_;
  size_t kept = 0;
  for (size_t begin = 0; begin < all.count; begin += kRun) {
    const size_t end = std::min(begin + kRun, all.count);
    bool stays[kRun] = {};
    bool any = false;
    for (size_t i = begin; i < end; ++i) any |= stays[i - begin] = keeps(i);
    if (!any) continue;
    // Without a branch: where half of a flat row stays, nothing foresees which half.
    for (size_t i = begin; i < end; ++i) {
      all.ids[kept] = all.ids[i];
      all.logits[kept] = all.logits[i];
      all.weights[kept] = all.weights[i];
      kept += stays[i - begin] ? 1 : 0;
    }
  }
  all.count = kept;
}

double RowSampler::TotalWeight() const {
  return std::accumulate(candidates_.weights.begin(),
                         candidates_.weights.begin() + static_cast<ptrdiff_t>(candidates_.count),
                         0.0);
}

SampledRow RowSampler::DrawFromCandidates(const SampleRow& row) {
  constexpr size_t kRun = 256;
  const Candidates& left = candidates_;
  // Sums up to the end of each run, so that only one run is added up again.
  run_sums_.clear();
  double total = 0;
  for (size_t i = 0; i < left.count; ++i) {
    total += left.weights[i];
    if ((i + 1) % kRun == 0) run_sums_.push_back(total);
  }
  const double target = row.token_uniform * total;
  const auto run = std::upper_bound(run_sums_.begin(), run_sums_.end(), target);
  double cumulative = run == run_sums_.begin() ? 0 : *(run - 1);
  size_t next = (run - run_sums_.begin()) * kRun;
  while (next < left.count && cumulative <= target) cumulative += left.weights[next++];
  // Rounding may put the target behind the last token of any weight.
  while (next > 0 && left.weights[next - 1] == 0) --next;
  SLUICE_CHECK(next > 0);
  const size_t chosen = next - 1;
  SampledRow result;
  result.token = {left.ids[chosen], left.weights[chosen] / total};
  if (row.num_top > 0) {
    for (const uint32_t index : TopOf(absl::MakeSpan(left.logits).first(left.count), row.num_top)) {
      result.top.push_back({left.ids[index], left.weights[index] / total});
    }
  }
  return result;
}

}  // namespace sluice
