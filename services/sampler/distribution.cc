#include "services/sampler/distribution.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>

#include "absl/strings/str_cat.h"
#include "kernels/check.h"

namespace sluice {
namespace {

using Tokens = std::vector<TokenProbability>;

// Of several the first. The branch is hardly ever taken, so the scan does not wait for one
// comparison before it makes the next; std::max_element, compiled without it, takes several times
// as long, for each row of each step.
int32_t IndexOfLargest(absl::Span<const float> logits) {
  size_t index = 0;
  float largest = logits[0];
  for (size_t id = 1; id < logits.size(); ++id) {
    if (logits[id] > largest) [[unlikely]] {
      index = id;
      largest = logits[id];
    }
  }
  return static_cast<int32_t>(index);
}

// The k-th largest logit.
float KthLargest(absl::Span<const float> logits, int k) {
  std::vector<float> copy(logits.begin(), logits.end());
  std::nth_element(copy.begin(), copy.begin() + (k - 1), copy.end(), std::greater<>());
  return copy[k - 1];
}

// The tokens that pass top-k, by ascending id; `probability` holds logit / temperature. Division is
// monotone and keeps distinct floats distinct as doubles, so the raw logits decide.
void KeepTopK(absl::Span<const float> logits, const SamplingOptions& options, Tokens& kept) {
  const bool limited = options.top_k > 0 && options.top_k < static_cast<int>(logits.size());
  const float least = limited ? KthLargest(logits, options.top_k) : -HUGE_VALF;
  const double temperature = options.temperature;
  kept.clear();
  for (size_t id = 0; id < logits.size(); ++id) {
    if (logits[id] >= least) kept.push_back({static_cast<int32_t>(id), logits[id] / temperature});
  }
}

void Normalise(Tokens& tokens) {
  double total = 0;
  for (const TokenProbability& token : tokens) total += token.probability;
  for (TokenProbability& token : tokens) token.probability /= total;
}

// Scaled logits to probabilities.
void Softmax(Tokens& tokens) {
  double largest = tokens.front().probability;
  for (const TokenProbability& token : tokens) largest = std::max(largest, token.probability);
  for (TokenProbability& token : tokens) token.probability = std::exp(token.probability - largest);
  Normalise(tokens);
}

bool MoreProbable(const TokenProbability& a, const TokenProbability& b) {
  return a.probability != b.probability ? a.probability > b.probability : a.id < b.id;
}

// How many of the most probable tokens have less than `top_p` before them. Leaves those first, in
// falling order. Sorts in growing pieces, because the nucleus of a peaked distribution is a small
// part of a large vocabulary.
size_t SortNucleus(Tokens& tokens, double top_p) {
  double before = 0;
  size_t count = 0;
  for (size_t sorted = 0, piece = 64; sorted < tokens.size(); piece *= 4) {
    const size_t end = std::min(sorted + piece, tokens.size());
    std::partial_sort(tokens.begin() + static_cast<ptrdiff_t>(sorted),
                      tokens.begin() + static_cast<ptrdiff_t>(end), tokens.end(), MoreProbable);
    for (sorted = end; count < sorted; ++count) {
      if (before >= top_p) return count;
      before += tokens[count].probability;
    }
  }
  return count;
}

void KeepTopP(double top_p, Tokens& tokens) {
  tokens.resize(SortNucleus(tokens, top_p));
  std::sort(tokens.begin(), tokens.end(),
            [](const TokenProbability& a, const TokenProbability& b) { return a.id < b.id; });
  Normalise(tokens);
}

}  // namespace

absl::Status CheckSamplingOptions(const SamplingOptions& options) {
  if (!std::isfinite(options.temperature) || options.temperature < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("temperature is ", options.temperature, "; accepted: a finite number from 0"));
  }
  if (options.top_k < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("top_k is ", options.top_k, "; accepted: 0 (all) or more"));
  }
  if (!(options.top_p > 0 && options.top_p <= 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("top_p is ", options.top_p, "; accepted: above 0, up to 1"));
  }
  return absl::OkStatus();
}

void FilteredDistribution(absl::Span<const float> logits, const SamplingOptions& options,
                          Tokens& kept) {
  SLUICE_CHECK(!logits.empty());
  if (options.temperature == 0) {
    kept.assign(1, {IndexOfLargest(logits), 1.0});
    return;
  }
  KeepTopK(logits, options, kept);
  Softmax(kept);
  if (options.top_p < 1) KeepTopP(options.top_p, kept);
}

int32_t DrawToken(absl::Span<const TokenProbability> distribution, double uniform) {
  double total = 0;
  for (const TokenProbability& token : distribution) total += token.probability;
  const double target = uniform * total;
  double cumulative = 0;
  for (const TokenProbability& token : distribution) {
    cumulative += token.probability;
    if (cumulative > target) return token.id;
  }
  // target < total because uniform <= 1 - 2^-53, unless rounding of the product reached the total.
  const auto last = std::find_if(distribution.rbegin(), distribution.rend(),
                                 [](const TokenProbability& t) { return t.probability > 0; });
  SLUICE_CHECK(last != distribution.rend());
  return last->id;
}

}  // namespace sluice
