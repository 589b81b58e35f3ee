#include "tests/kernels/ceilings.h"

#include <time.h>

#include <algorithm>
#include <vector>

#include "kernels/check.h"
#include "kernels/cpu/memory.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/kernels/ceilings.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace sluice::testing {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using Tag = hn::ScalableTag<float>;

// The sum of `count` floats, read as `streams` runs side by side: how many runs a core's
// prefetchers keep up with best differs from machine to machine. REQUIRES: streams divides 8, and 8
// vectors of `streams` runs each divide count.
float SumOf(const float* from, size_t count, int streams) {
  constexpr int kSums = 8;
  const Tag d;
  const size_t lanes = hn::Lanes(d);
  const int per_stream = kSums / streams;
  const float* places[kSums];
  for (int s = 0; s < kSums; ++s) {
    places[s] = from + s / per_stream * (count / streams) + s % per_stream * lanes;
  }
  hn::Vec<Tag> sums[kSums];
  for (auto& sum : sums) sum = hn::Zero(d);
  for (size_t i = 0; i < count / streams; i += per_stream * lanes) {
    for (int s = 0; s < kSums; ++s) sums[s] = hn::Add(sums[s], hn::Load(d, places[s] + i));
  }
  for (int s = 1; s < kSums; ++s) sums[0] = hn::Add(sums[0], sums[s]);
  return hn::GetLane(hn::SumOfLanes(d, sums[0]));
}

// Adds up `rounds` multiply-adds in each of some independent vectors; returns the operations done.
double MultiplyAdds(int64_t rounds, float* result) {
  constexpr int kChains = 12;
  const Tag d;
  hn::Vec<Tag> sums[kChains];
  for (int c = 0; c < kChains; ++c) sums[c] = hn::Set(d, static_cast<float>(c) + *result);
  const auto factor = hn::Set(d, 0.999f + *result), term = hn::Set(d, 1e-3f);
  for (int64_t round = 0; round < rounds; ++round) {
    for (int c = 0; c < kChains; ++c) sums[c] = hn::MulAdd(sums[c], factor, term);
  }
  for (int c = 1; c < kChains; ++c) sums[0] = hn::Add(sums[0], sums[c]);
  *result = hn::GetLane(sums[0]);
  return 2.0 * rounds * kChains * static_cast<double>(hn::Lanes(d));
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace sluice::testing
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::testing {

HWY_EXPORT(SumOf);
HWY_EXPORT(MultiplyAdds);

double Seconds(int num_threads) {
  timespec now;
  clock_gettime(num_threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double MeasureReadBandwidth(ThreadPool& pool) {
  constexpr size_t kFloats = size_t{1} << 28;  // a gibibyte
  constexpr size_t kChunk = size_t{1} << 18;
  absl::StatusOr<HostMemory> memory = HostMemory::Allocate(kFloats * sizeof(float));
  SLUICE_CHECK(memory.ok());
  auto* floats = reinterpret_cast<float*>(memory->data());
  const auto for_chunks = [&](ThreadPool::Task task) { pool.ParallelFor(kFloats / kChunk, task); };
  for_chunks([&](int64_t chunk, int) { std::fill_n(floats + chunk * kChunk, kChunk, 1.0f); });
  std::vector<float> sums(kFloats / kChunk);
  double best = 0;
  for (int pass = 0; pass < 12; ++pass) {
    const int streams = 1 << pass % 4;
    const double start = Seconds(pool.num_threads());
    for_chunks([&](int64_t chunk, int) {
      sums[chunk] = HWY_DYNAMIC_DISPATCH(SumOf)(floats + chunk * kChunk, kChunk, streams);
    });
    best = std::max(best, kFloats * sizeof(float) / (Seconds(pool.num_threads()) - start));
  }
  for (const float sum : sums) SLUICE_CHECK(sum == static_cast<float>(kChunk));
  return best;
}

double MeasureFlops(ThreadPool& pool) {
  constexpr int64_t kRounds = 4'000'000;
  std::vector<double> operations(pool.num_threads());
  std::vector<float> results(pool.num_threads());
  double best = 0;
  for (int pass = 0; pass < 5; ++pass) {
    const double start = Seconds(pool.num_threads());
    pool.ParallelFor(pool.num_threads(), [&](int64_t index, int) {
      float result = results[index] * 1e-30f;
      operations[index] = HWY_DYNAMIC_DISPATCH(MultiplyAdds)(kRounds, &result);
      results[index] = result;
    });
    double total = 0;
    for (const double each : operations) total += each;
    best = std::max(best, total / (Seconds(pool.num_threads()) - start));
  }
  return best;
}

}  // namespace sluice::testing
#endif  // HWY_ONCE
