#include "services/sampler/distribution.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
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

// The k-th largest logit. While k is small, hardly any of a row is above the k largest so far, and
// the rest is passed over by one comparison each.
float KthLargest(absl::Span<const float> logits, size_t k) {
  constexpr size_t kMostInHeap = 256;
  const std::greater<> larger;
  if (k > kMostInHeap) {
    std::vector<float> copy(logits.begin(), logits.end());
    std::nth_element(copy.begin(), copy.begin() + static_cast<ptrdiff_t>(k - 1), copy.end(),
                     larger);
    return copy[k - 1];
  }
  std::vector<float> largest(logits.begin(), logits.begin() + static_cast<ptrdiff_t>(k));
  std::make_heap(largest.begin(), largest.end(), larger);  // the least of them in front
  for (const float logit : logits.subspan(k)) {
    if (logit > largest.front()) [[unlikely]] {
      std::pop_heap(largest.begin(), largest.end(), larger);
      largest.back() = logit;
      std::push_heap(largest.begin(), largest.end(), larger);
    }
  }
  return largest.front();
}

// The tokens that pass top-k, by ascending id; `probability` holds logit / temperature. Division is
// monotone and keeps distinct floats distinct as doubles, so the raw logits decide.
void KeepTopK(absl::Span<const float> logits, const SamplingOptions& options, Tokens& kept) {
  const bool limited = options.top_k > 0 && options.top_k < static_cast<int>(logits.size());
  const auto k = static_cast<size_t>(options.top_k);
  const float least = limited ? KthLargest(logits, k) : -HUGE_VALF;
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

// Probabilities by size, four sizes to a power of two, the largest first.
constexpr size_t kSizes = 4096;
size_t SizeOf(double probability) {
  constexpr int kOtherBits = 50;
  constexpr auto kOne = std::bit_cast<uint64_t>(1.0) >> kOtherBits;
  return kOne - std::min(kOne, std::bit_cast<uint64_t>(probability) >> kOtherBits);
}

// The last token, by falling probability, that has less than `top_p` < 1 before it. Vocabularies
// are large and a nucleus may be, but only tokens of one size have to be sorted.
TokenProbability LastOfNucleus(const Tokens& tokens, double top_p) {
  std::vector<double> masses(kSizes);
  for (const TokenProbability& token : tokens) {
    masses[SizeOf(token.probability)] += token.probability;
  }
  double before = 0;
  size_t size = 0;
  while (size + 1 < kSizes && before + masses[size] < top_p) before += masses[size++];
  Tokens of_size;
  for (const TokenProbability& token : tokens) {
    if (SizeOf(token.probability) == size) of_size.push_back(token);
  }
  // Probabilities add up to 1, from which a float below 1 is further away than rounding errors.
  SLUICE_CHECK(!of_size.empty());
  std::sort(of_size.begin(), of_size.end(), MoreProbable);
  size_t last = 0;
  for (; last + 1 < of_size.size(); ++last) {
    before += of_size[last].probability;
    if (before >= top_p) break;
  }
  return of_size[last];
}

void KeepTopP(double top_p, Tokens& tokens) {
  const TokenProbability last = LastOfNucleus(tokens, top_p);
  std::erase_if(tokens,
                [&last](const TokenProbability& token) { return MoreProbable(last, token); });
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
