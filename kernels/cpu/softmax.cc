#include "kernels/cpu/softmax.h"

#include <cmath>

#include "kernels/check.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/softmax.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/cpu/simd-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace sluice {
namespace HWY_NAMESPACE {
namespace {

// What log-probabilities are less than their scores.
struct Shift {
  float maximum;
  float log_sum;
};

Shift ShiftOf(const float* x, int64_t size) {
  const float maximum = Maximum(x, size);
  const double sum = FixedOrderSum(size, [=](auto d, int64_t i) HWY_ATTR {
    return Exp(d, hn::Sub(hn::LoadU(d, x + i), hn::Set(d, maximum)));
  });
  return {maximum, static_cast<float>(std::log(sum))};
}

float LogProbabilityInRow(const float* x, int64_t size, int64_t index) {
  const Shift shift = ShiftOf(x, size);
  return x[index] - shift.maximum - shift.log_sum;
}

void LogSoftmaxRow(const float* x, int64_t size, float* out) {
  const auto [maximum, log_sum] = ShiftOf(x, size);
  ForEachVector(size, [=, maximum = maximum, log_sum = log_sum](auto d, int64_t i) HWY_ATTR {
    const auto shifted = hn::Sub(hn::LoadU(d, x + i), hn::Set(d, maximum));
    hn::StoreU(hn::Sub(shifted, hn::Set(d, log_sum)), d, out + i);
  });
}

void LogSoftmaxRows(CpuContext& context, MatrixView x, MatrixView out) {
  ForRowRuns(context, x.rows, x.cols, [&](int64_t begin, int64_t end) HWY_ATTR {
    for (int64_t t = begin; t < end; ++t) LogSoftmaxRow(x.Row(t), x.cols, out.Row(t));
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace sluice
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice {

HWY_EXPORT(LogSoftmaxRows);
HWY_EXPORT(LogProbabilityInRow);

void LogSoftmax(CpuContext& context, MatrixView x, MatrixView out) {
  SLUICE_CHECK(x.rows == out.rows && x.cols == out.cols && x.cols > 0);
  HWY_DYNAMIC_DISPATCH(LogSoftmaxRows)(context, x, out);
}

float LogProbability(absl::Span<const float> row, int64_t index) {
  SLUICE_CHECK(0 <= index && index < static_cast<int64_t>(row.size()));
  return HWY_DYNAMIC_DISPATCH(LogProbabilityInRow)(row.data(), static_cast<int64_t>(row.size()),
                                                   index);
}

}  // namespace sluice
#endif  // HWY_ONCE
