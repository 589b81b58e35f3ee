#include "orchestrator/capacity/arrivals.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace sluice {
namespace {

constexpr double kMostRate = 1e6;
constexpr double kMostVariation = 100;

// SplitMix64 and what is drawn from it: standard distributions differ between libraries.
class Draws {
 public:
  explicit Draws(uint64_t seed) : state_(seed) {}

  uint64_t Number() {
    uint64_t x = (state_ += 0x9e3779b97f4a7c15u);
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
  }
  // In (0, 1].
  double Uniform() { return (static_cast<double>(Number() >> 11) + 1) * 0x1p-53; }
  int32_t In(TokenRange range) {
    const auto span = static_cast<uint64_t>(range.most - range.least) + 1;
    return range.least + static_cast<int32_t>(Number() % span);
  }
  double Exponential() { return -std::log(Uniform()); }
  double Normal() {
    return std::sqrt(-2 * std::log(Uniform())) * std::cos(2 * std::numbers::pi * Uniform());
  }
  // Marsaglia and Tsang 2000. Mean `shape`, > 0.
  double Gamma(double shape) {
    if (shape < 1) return Gamma(shape + 1) * std::pow(Uniform(), 1 / shape);
    const double d = shape - 1.0 / 3;
    const double c = 1 / std::sqrt(9 * d);
    while (true) {
      const double x = Normal();
      const double v = std::pow(1 + c * x, 3);
      if (v <= 0) continue;
      if (std::log(Uniform()) < x * x / 2 + d - d * v + d * std::log(v)) return d * v;
    }
  }

 private:
  uint64_t state_;
};

double DrawGap(const ArrivalLaw& law, Draws& draws) {
  const double mean = 1 / law.rate;
  if (law.variation == 0) return mean;
  if (law.variation == 1) return mean * draws.Exponential();
  const double shape = 1 / (law.variation * law.variation);
  return mean * draws.Gamma(shape) / shape;
}

bool ParseUpTo(absl::string_view text, double most, double* into) {
  return absl::SimpleAtod(text, into) && *into > 0 && *into <= most;
}

}  // namespace

absl::StatusOr<ArrivalLaw> ParseArrivalLaw(const std::string& text) {
  const std::vector<std::string> parts = absl::StrSplit(text, ':');
  const std::string& name = parts[0];
  ArrivalLaw law{.variation = name == "steady" ? 0.0 : 1.0};
  const bool bursty = name == "bursty";
  bool good = (bursty || name == "steady" || name == "poisson") &&
              parts.size() == (bursty ? 3u : 2u) && ParseUpTo(parts[1], kMostRate, &law.rate);
  if (good && bursty) good = ParseUpTo(parts[2], kMostVariation, &law.variation);
  if (good) return law;
  return absl::InvalidArgumentError(absl::StrCat(
      "\"", text,
      "\" is no law of arrivals; accepted: poisson:RATE, steady:RATE, or "
      "bursty:RATE:VARIATION, with requests a second, at most ",
      kMostRate, ", and deviation over mean of the times between them, at most ", kMostVariation));
}

absl::StatusOr<TokenRange> ParseTokenRange(const std::string& text) {
  const std::vector<std::string> parts = absl::StrSplit(text, absl::MaxSplits('-', 1));
  TokenRange range;
  const bool good = absl::SimpleAtoi(parts.front(), &range.least) &&
                    absl::SimpleAtoi(parts.back(), &range.most) && range.least >= 1 &&
                    range.least <= range.most && range.most <= kMostTracedTokens;
  if (good) return range;
  return absl::InvalidArgumentError(
      absl::StrCat("\"", text, "\" is no number of tokens; accepted: N or LEAST-MOST, 1 to ",
                   kMostTracedTokens));
}

std::vector<double> MakeArrivals(const ArrivalLaw& law, int64_t count, uint64_t seed) {
  Draws draws(seed);
  std::vector<double> arrivals(static_cast<size_t>(count));
  for (size_t i = 1; i < arrivals.size(); ++i) {
    arrivals[i] = arrivals[i - 1] + DrawGap(law, draws);
  }
  return arrivals;
}

Trace MakeTrace(const SyntheticLoad& load) {
  Trace trace;
  const std::vector<double> arrivals = MakeArrivals(load.arrivals, load.num_requests, load.seed);
  trace.requests.reserve(arrivals.size());
  Draws draws(~load.seed);
  for (const double arrival : arrivals) {
    TracedRequest request{.arrival = arrival};
    request.prompt_tokens = draws.In(load.prompt_tokens);
    request.new_tokens = draws.In(load.new_tokens);
    if (load.prefix_tokens > 0) {
      request.first_run = static_cast<uint32_t>(trace.runs.size());
      request.num_runs = 1;
      const auto prefix = draws.Number() % static_cast<uint64_t>(load.num_prefixes);
      trace.runs.push_back({.id = static_cast<uint32_t>(prefix),
                            .length = std::min(load.prefix_tokens, request.prompt_tokens)});
    }
    trace.requests.push_back(request);
  }
  return trace;
}

}  // namespace sluice
