#include "kernels/cpu/top_k.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/check.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/top_k.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/cpu/simd-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace sluice {
namespace HWY_NAMESPACE {
namespace {

// The first column in [begin, size) whose element exceeds `threshold`, give or take: it may lie up
// to a vector early, never late. `size` where there is none.
int64_t SkipUntilLarger(const float* x, int64_t begin, int64_t size, float threshold) {
  const FloatTag d;
  const int64_t lanes = hn::Lanes(d);
  const auto limit = hn::Set(d, threshold);
  int64_t i = begin;
  for (; i + lanes <= size; i += lanes) {
    if (!hn::AllFalse(d, hn::Gt(hn::LoadU(d, x + i), limit))) return i;
  }
  while (i < size && !(x[i] > threshold)) ++i;
  return i;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace sluice
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice {

HWY_EXPORT(SkipUntilLarger);

namespace {

struct Candidate {
  float value;
  int32_t column;
};

// Whether a comes before b: larger, then of lower column; NaN comes last.
bool Before(const Candidate& a, const Candidate& b) {
  if (a.value > b.value) return true;
  if (a.value < b.value) return false;
  const bool a_is_nan = std::isnan(a.value), b_is_nan = std::isnan(b.value);
  return a_is_nan == b_is_nan ? a.column < b.column : b_is_nan;
}

// A heap of the k best so far, the worst of them on top. Once it is full, only what exceeds that
// one can enter, so most of a row is passed over a vector at a time.
void TopKOfRow(const float* x, int64_t size, int k, std::vector<Candidate>& heap) {
  const auto skip = HWY_DYNAMIC_DISPATCH(SkipUntilLarger);
  heap.clear();
  for (int32_t column = 0; column < k; ++column) heap.push_back({x[column], column});
  std::make_heap(heap.begin(), heap.end(), Before);
  for (int64_t i = k; i < size; ++i) {
    const float worst = heap.front().value;
    if (!std::isnan(worst)) {
      i = skip(x, i, size, worst);
      if (i == size) break;
    }
    const Candidate candidate{x[i], static_cast<int32_t>(i)};
    if (!Before(candidate, heap.front())) continue;
    std::pop_heap(heap.begin(), heap.end(), Before);
    heap.back() = candidate;
    std::push_heap(heap.begin(), heap.end(), Before);
  }
  std::sort_heap(heap.begin(), heap.end(), Before);
}

}  // namespace

void TopK(CpuContext& context, MatrixView x, int k, absl::Span<float> values,
          absl::Span<int32_t> ids) {
  SLUICE_CHECK(1 <= k && k <= x.cols);
  SLUICE_CHECK(static_cast<int64_t>(values.size()) == x.rows * k && values.size() == ids.size());
  ForRowRuns(context, x.rows, x.cols, [&](int64_t begin, int64_t end) {
    std::vector<Candidate> best;
    best.reserve(k);
    for (int64_t t = begin; t < end; ++t) {
      TopKOfRow(x.Row(t), x.cols, k, best);
      for (int i = 0; i < k; ++i) {
        values[t * k + i] = best[i].value;
        ids[t * k + i] = best[i].column;
      }
    }
  });
}

}  // namespace sluice
#endif  // HWY_ONCE
