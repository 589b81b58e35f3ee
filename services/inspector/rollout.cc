#include "services/inspector/rollout.h"

#include <numeric>

#include "kernels/check.h"

namespace sluice {
namespace {

constexpr double kResidual = 0.5;

}  // namespace

Rollout::Rollout(int64_t num_positions)
    : num_positions_(num_positions), flow_(num_positions * num_positions) {
  for (int64_t i = 0; i < num_positions; ++i) flow_[i * num_positions + i] = 1;
}

void Rollout::Add(absl::Span<const double> mean) {
  const int64_t n = num_positions_;
  SLUICE_CHECK(static_cast<int64_t>(mean.size()) == n * n);
  std::vector<double> next(n * n);
  for (int64_t i = 0; i < n; ++i) {
    const auto row = mean.subspan(i * n, n);
    const double sum = (1 - kResidual) * std::accumulate(row.begin(), row.end(), 0.0) + kResidual;
    double* const out = next.data() + i * n;
    for (int64_t j = 0; j < n; ++j) {
      const double weight = ((1 - kResidual) * row[j] + (i == j ? kResidual : 0)) / sum;
      if (weight == 0) continue;
      const double* const input = flow_.data() + j * n;
      for (int64_t k = 0; k < n; ++k) out[k] += weight * input[k];
    }
  }
  flow_ = std::move(next);
}

}  // namespace sluice
