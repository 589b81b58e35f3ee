#include "services/shard/rope_table.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "kernels/check.h"

namespace sluice {
namespace {

const double kTwoPi = 2 * std::acos(-1.0);

std::vector<double> PlainFrequencies(double theta, int dim) {
  std::vector<double> frequencies(dim / 2);
  for (int i = 0; i < dim / 2; ++i) frequencies[i] = std::pow(theta, -2.0 * i / dim);
  return frequencies;
}

// The base that divides the slowest pair's frequency by `factor` and keeps the fastest's.
double NtkTheta(double theta, double factor, int dim) {
  return theta * std::pow(factor, dim / (dim - 2.0));
}

// How much of each pair's own frequency is kept; the rest is interpolated.
std::vector<double> YarnKept(const RopeConfig& config) {
  // The (fractional) pair that turns so often within the original context.
  const auto pair_turning = [&](double turns) {
    return config.dim * std::log(config.original_positions / (turns * kTwoPi)) /
           (2 * std::log(config.theta));
  };
  double low = pair_turning(config.beta_fast), high = pair_turning(config.beta_slow);
  if (config.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, config.dim - 1.0);
  if (low == high) high += 0.001;
  std::vector<double> kept(config.dim / 2);
  for (int i = 0; i < config.dim / 2; ++i) {
    kept[i] = 1 - std::clamp((i - low) / (high - low), 0.0, 1.0);
  }
  return kept;
}

std::vector<double> Llama3Kept(const RopeConfig& config, const std::vector<double>& frequencies) {
  std::vector<double> kept;
  for (const double frequency : frequencies) {
    const double turns = config.original_positions * frequency / kTwoPi;
    if (config.high_freq_factor == config.low_freq_factor) {  // nothing lies between
      kept.push_back(turns >= config.low_freq_factor ? 1.0 : 0.0);
      continue;
    }
    kept.push_back(std::clamp(
        (turns - config.low_freq_factor) / (config.high_freq_factor - config.low_freq_factor), 0.0,
        1.0));
  }
  return kept;
}

std::vector<double> Blended(std::vector<double> frequencies, const std::vector<double>& kept,
                            double factor) {
  for (size_t i = 0; i < frequencies.size(); ++i) {
    frequencies[i] = frequencies[i] * kept[i] + frequencies[i] / factor * (1 - kept[i]);
  }
  return frequencies;
}

std::vector<double> Divided(std::vector<double> frequencies, const std::vector<double>& divisors) {
  SLUICE_CHECK(frequencies.size() == divisors.size());
  for (size_t i = 0; i < frequencies.size(); ++i) frequencies[i] /= divisors[i];
  return frequencies;
}

}  // namespace

RopeTable::RopeTable(const RopeConfig& config)
    : config_(config), frequencies_(Compute(config.original_positions)) {
  SLUICE_CHECK(config.dim >= 0 && config.dim % 2 == 0);
}

std::vector<double> RopeTable::Compute(int32_t length) const {
  const RopeConfig& config = config_;
  const std::vector<double> plain = PlainFrequencies(config.theta, config.dim);
  switch (config.scaling) {
    case RopeScaling::kNone:
      return plain;
    case RopeScaling::kLinear:
      return Divided(plain, std::vector<double>(plain.size(), config.factor));
    case RopeScaling::kNtk:
      return PlainFrequencies(NtkTheta(config.theta, config.factor, config.dim), config.dim);
    case RopeScaling::kDynamicNtk: {
      const double ratio = std::max(1.0, double{1} * length / config.original_positions);
      const double factor = config.factor * ratio - (config.factor - 1);
      return PlainFrequencies(NtkTheta(config.theta, factor, config.dim), config.dim);
    }
    case RopeScaling::kYarn:
      return Blended(plain, YarnKept(config), config.factor);
    case RopeScaling::kLlama3:
      return Blended(plain, Llama3Kept(config, plain), config.factor);
    case RopeScaling::kProportional: {
      std::vector<double> frequencies =
          Divided(plain, std::vector<double>(plain.size(), config.factor));
      std::fill(frequencies.begin() + config.turned_pairs, frequencies.end(), 0.0);
      return frequencies;
    }
    case RopeScaling::kLongRope:
      return Divided(
          plain, length > config.original_positions ? config.long_factors : config.short_factors);
  }
  SLUICE_CHECK(false);
  return {};
}

bool RopeTable::TurnsByLength(int32_t length) const {
  return config_.depends_on_length() && length > config_.original_positions;
}

std::vector<double> RopeTable::Frequencies(int32_t length) const {
  return TurnsByLength(length) ? Compute(length) : frequencies_;
}

void RopeTable::Fill(absl::Span<const int32_t> positions, int32_t length, absl::Span<float> cos,
                     absl::Span<float> sin) const {
  std::vector<double> own;  // stays empty, and off the heap, for most
  if (TurnsByLength(length)) own = Compute(length);
  const std::vector<double>& frequencies = own.empty() ? frequencies_ : own;
  SLUICE_CHECK(cos.size() == positions.size() * frequencies.size() && sin.size() == cos.size());
  size_t index = 0;
  for (const int32_t position : positions) {
    for (const double frequency : frequencies) {
      const double angle = position * frequency;
      cos[index] = static_cast<float>(config_.attention_factor * std::cos(angle));
      sin[index] = static_cast<float>(config_.attention_factor * std::sin(angle));
      ++index;
    }
  }
}

}  // namespace sluice
