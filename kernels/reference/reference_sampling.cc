#include "kernels/reference/reference_sampling.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>

namespace sluice {
namespace {

// The filters over one row: which tokens are left.
class Filters {
 public:
  Filters(const std::vector<float>& logits, const SamplingOptions& options)
      : logits_(logits), options_(options) {
    for (size_t id = 0; id < logits.size(); ++id) {
      if (std::isfinite(logits[id])) ids_.push_back(static_cast<int32_t>(id));
    }
    sigma_ = Deviation();
    largest_ = logits_[ByLogit().front()];
    temperature_ = Temperature();
  }

  double temperature() const { return temperature_; }

  // Probabilities of what is left, by ascending id.
  std::vector<TokenProbability> Probabilities() const {
    std::vector<TokenProbability> tokens;
    double largest = -HUGE_VAL, total = 0;
    for (const int32_t id : ids_) largest = std::max(largest, double{logits_[id]});
    for (const int32_t id : ids_) {
      tokens.push_back({id, std::exp((logits_[id] - largest) / temperature_)});
      total += tokens.back().probability;
    }
    for (TokenProbability& token : tokens) token.probability /= total;
    return tokens;
  }

  void Apply(bool xtc) {
    if (options_.top_k > 0) KeepTopK(options_.top_k);
    if (options_.top_p < 1) KeepUntil(options_.top_p, [](double p, double) { return -p; });
    if (options_.min_p > 0) KeepMinP(options_.min_p);
    if (options_.typical_p < 1) {
      KeepUntil(options_.typical_p,
                [](double p, double entropy) { return std::abs(-std::log(p) - entropy); });
    }
    if (options_.top_n_sigma > 0) {
      const double least = largest_ - options_.top_n_sigma * sigma_;
      std::erase_if(ids_, [&](int32_t id) { return logits_[id] < least; });
    }
    if (xtc) RemoveTopChoices(options_.xtc_threshold);
  }

 private:
  double Deviation() const {
    double mean = 0, squares = 0;
    for (const int32_t id : ids_) mean += logits_[id] / static_cast<double>(ids_.size());
    for (const int32_t id : ids_) squares += (logits_[id] - mean) * (logits_[id] - mean);
    return std::sqrt(squares / static_cast<double>(ids_.size()));
  }

  static double Entropy(const std::vector<TokenProbability>& tokens) {
    double entropy = 0;
    for (const TokenProbability& token : tokens) {
      if (token.probability > 0) entropy -= token.probability * std::log(token.probability);
    }
    return entropy;
  }

  // temperature_ is 1 until this has said otherwise.
  double Temperature() const {
    const double t = options_.temperature, range = options_.dynatemp_range;
    if (range == 0) return t;
    const auto count = static_cast<double>(ids_.size());
    const double share = count == 1 ? 0 : Entropy(Probabilities()) / std::log(count);
    return t - range + 2 * range * std::pow(share, double{options_.dynatemp_exponent});
  }

  std::vector<int32_t> ByLogit() const {
    std::vector<int32_t> order = ids_;
    std::stable_sort(order.begin(), order.end(),
                     [&](int32_t a, int32_t b) { return logits_[a] > logits_[b]; });
    return order;
  }

  void KeepTopK(size_t k) {
    if (k >= ids_.size()) return;
    const float least = logits_[ByLogit()[k - 1]];
    std::erase_if(ids_, [&](int32_t id) { return logits_[id] < least; });
  }

  // Keeps tokens by rising `rank_of(probability, entropy)`, ties by id, until
  // those before one reach `mass`.
  void KeepUntil(double mass, const std::function<double(double p, double entropy)>& rank_of) {
    std::vector<TokenProbability> tokens = Probabilities();
    const double entropy = Entropy(tokens);
    std::stable_sort(tokens.begin(), tokens.end(), [&](const auto& a, const auto& b) {
      return rank_of(a.probability, entropy) < rank_of(b.probability, entropy);
    });
    ids_.clear();
    double before = 0;
    for (const TokenProbability& token : tokens) {
      if (before >= mass) break;
      ids_.push_back(token.id);
      before += token.probability;
    }
    std::sort(ids_.begin(), ids_.end());
  }

  void KeepMinP(double min_p) {
    const std::vector<TokenProbability> tokens = Probabilities();
    double most = 0;
    for (const TokenProbability& token : tokens) most = std::max(most, token.probability);
    ids_.clear();
    for (const TokenProbability& token : tokens) {
      if (token.probability >= min_p * most) ids_.push_back(token.id);
    }
  }

  void RemoveTopChoices(double threshold) {
    std::vector<TokenProbability> tokens = Probabilities();
    std::stable_sort(tokens.begin(), tokens.end(),
                     [](const auto& a, const auto& b) { return a.probability > b.probability; });
    for (size_t i = 0; i + 1 < tokens.size() && tokens[i + 1].probability >= threshold; ++i) {
      std::erase(ids_, tokens[i].id);
    }
  }

  const std::vector<float>& logits_;
  const SamplingOptions& options_;
  std::vector<int32_t> ids_;  // what is left, ascending
  double sigma_ = 0;
  float largest_ = 0;
  double temperature_ = 1;
};

std::vector<TokenProbability> DistributionOf(const std::vector<float>& edited,
                                             const SampleRow& row) {
  Filters filters(edited, *row.options);
  if (filters.temperature() == 0) {
    const auto largest = std::max_element(edited.begin(), edited.end());
    return {{static_cast<int32_t>(largest - edited.begin()), 1}};
  }
  filters.Apply(row.xtc_uniform < row.options->xtc_probability);
  return filters.Probabilities();
}

int32_t Draw(const std::vector<TokenProbability>& distribution, double uniform) {
  double cumulative = 0;
  int32_t last = 0;  // of those that can be drawn
  for (const TokenProbability& token : distribution) {
    cumulative += token.probability;
    if (token.probability > 0) last = token.id;
    if (cumulative > uniform) break;
  }
  return last;
}

}  // namespace

std::vector<float> ReferenceEditedLogits(absl::Span<const float> logits, const SampleRow& row) {
  std::vector<float> edited(logits.begin(), logits.end());
  for (size_t id = 0; id < edited.size() && !row.allowed.empty(); ++id) {
    if ((row.allowed[id / 32] >> (id % 32) & 1) == 0) edited[id] = -HUGE_VALF;
  }
  const double repetition = row.options->repetition_penalty;
  for (const LogitEdit& edit : row.edits) {
    double logit = double{edited[edit.id]} + edit.bias;
    if (edit.repeated) logit = logit > 0 ? logit / repetition : logit * repetition;
    edited[edit.id] = static_cast<float>(logit - edit.penalty);
  }
  return edited;
}

std::vector<TokenProbability> ReferenceDistribution(absl::Span<const float> logits,
                                                    const SampleRow& row) {
  return DistributionOf(ReferenceEditedLogits(logits, row), row);
}

SampledRow ReferenceSample(absl::Span<const float> logits, const SampleRow& row) {
  SampledRow result;
  for (size_t id = 0; id < logits.size(); ++id) {
    if (std::isfinite(logits[id])) continue;
    result.error = SampleError::kNotFinite;
    result.token.id = static_cast<int32_t>(id);
    return result;
  }
  const std::vector<float> edited = ReferenceEditedLogits(logits, row);
  if (*std::max_element(edited.begin(), edited.end()) == -HUGE_VALF) {
    result.error = SampleError::kNothingLeft;
    return result;
  }
  std::vector<TokenProbability> distribution = DistributionOf(edited, row);
  const int32_t chosen = Draw(distribution, row.token_uniform);
  for (const TokenProbability& token : distribution) {
    if (token.id == chosen) result.token = token;
  }
  std::stable_sort(distribution.begin(), distribution.end(),
                   [&](const auto& a, const auto& b) { return edited[a.id] > edited[b.id]; });
  distribution.resize(std::min<size_t>(distribution.size(), row.num_top));
  result.top = std::move(distribution);
  return result;
}

}  // namespace sluice
