#include "tests/kernels/ceilings.h"

#include <time.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "kernels/check.h"
#include "tests/kernels/peak_x86.h"

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

// The sum of `count` floats, read by `pattern`, whose chunk does not matter here. REQUIRES: its
// streams divide 8, and 8 vectors of so many runs each divide count.
template <bool kAsks>
float SumRuns(const float* from, size_t count, const ReadPattern& pattern) {
  const int streams = pattern.streams;
  const size_t ahead = pattern.ahead / sizeof(float);
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
    for (int s = 0; s < kSums; ++s) {
      if constexpr (kAsks) __builtin_prefetch(places[s] + i + ahead);
      sums[s] = hn::Add(sums[s], hn::Load(d, places[s] + i));
    }
  }
  for (int s = 1; s < kSums; ++s) sums[0] = hn::Add(sums[0], sums[s]);
  return hn::GetLane(hn::SumOfLanes(d, sums[0]));
}

float SumOf(const float* from, size_t count, const ReadPattern& pattern) {
  return pattern.ahead > 0 ? SumRuns<true>(from, count, pattern)
                           : SumRuns<false>(from, count, pattern);
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

namespace {

constexpr size_t kArea = size_t{1} << 28;  // floats: a gibibyte
constexpr size_t kPass = kArea / 4;
constexpr size_t kFilled = size_t{1} << 18;  // floats by a thread at a time

constexpr int kTurns = 3;

// Long enough for the clock and for waking the threads, short enough to alternate with a kernel.
constexpr double kPeakSeconds = 8e-3;

double MultiplyF32(int64_t rounds, float* result) {
  return HWY_DYNAMIC_DISPATCH(MultiplyAdds)(rounds, result);
}

constexpr PeakLoop kF32Loop = {"F32 multiply-add", MultiplyF32};

// Of a loop on one thread, at best.
double RateOf(const PeakLoop& loop) {
  double best = 0;
  for (int turn = 0; turn < 5; ++turn) {
    float result;
    const double start = Seconds(/*num_threads=*/1);
    const double operations = loop.run(/*rounds=*/5000, &result);
    best = std::max(best, operations / (Seconds(1) - start));
  }
  return best;
}

// A bfloat16 number is a float too, and some processors multiply twice as many of these.
PeakLoop BF16Loop() {
  const PeakLoop pairs = X86BF16Loop();
  if (pairs.run == nullptr) return {};
  return RateOf(pairs) < RateOf(kF32Loop) ? kF32Loop : pairs;
}

PeakLoop LoopOf(Arithmetic arithmetic) {
  if (arithmetic == Arithmetic::kF32) return kF32Loop;
  if (arithmetic == Arithmetic::kInt8) return X86Int8Loop();
  static const PeakLoop bf16 = BF16Loop();
  return bf16;
}

// Operations per second of all threads, which share out several runs of the loop: a thread that is
// held up leaves more to the others.
double OperationsPerSecond(ThreadPool& pool, const PeakLoop& loop, int64_t rounds,
                           double* seconds) {
  const int64_t runs = int64_t{8} * pool.num_threads();
  std::vector<double> operations(runs);
  std::vector<float> results(runs);
  const double start = Seconds(pool.num_threads());
  pool.ParallelFor(
      runs, [&](int64_t index, int) { operations[index] = loop.run(rounds, &results[index]); });
  *seconds = Seconds(pool.num_threads()) - start;
  double total = 0;
  for (const double each : operations) total += each;
  return total / *seconds;
}

}  // namespace

double Seconds(int num_threads) {
  timespec now;
  clock_gettime(num_threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

std::vector<ReadPattern> ReadPatterns() {
  std::vector<ReadPattern> patterns;
  for (const bool huge_pages : {false, true}) {
    for (const int streams : {1, 2, 4, 8}) {
      for (const size_t ahead : {0, 1024, 8192}) {
        for (const size_t chunk : {size_t{1} << 20, size_t{1} << 24}) {
          patterns.push_back({streams, ahead, chunk, huge_pages});
        }
      }
    }
  }
  return patterns;
}

ReadPattern BestPattern(absl::Span<const ReadPattern> patterns,
                        absl::FunctionRef<double(const ReadPattern&)> measure) {
  SLUICE_CHECK(!patterns.empty());
  ReadPattern best;
  double most = 0;
  for (size_t turn = 0; turn < kTurns * patterns.size(); ++turn) {
    const ReadPattern& pattern = patterns[turn % patterns.size()];
    const double bandwidth = measure(pattern);
    if (bandwidth <= most) continue;
    most = bandwidth;
    best = pattern;
  }
  return best;
}

ReadCeiling::ReadCeiling(ThreadPool& pool) : pool_(pool) {
  for (const bool huge_pages : {false, true}) {
    constexpr size_t kBytes = kArea * sizeof(float);
    absl::StatusOr<HostMemory> area =
        huge_pages ? HostMemory::Allocate(kBytes) : HostMemory::Reserve(kBytes);
    SLUICE_CHECK(area.ok());
    Fill(areas_[huge_pages ? 1 : 0] = *std::move(area));
  }
  best_ =
      BestPattern(ReadPatterns(), [this](const ReadPattern& pattern) { return Measure(pattern); });
  areas_[best_.huge_pages ? 0 : 1] = HostMemory();
}

void ReadCeiling::Fill(HostMemory& area) {
  auto* floats = reinterpret_cast<float*>(area.data());
  pool_.ParallelFor(kArea / kFilled, [&](int64_t index, int) {
    std::fill_n(floats + index * kFilled, kFilled, 1.0f);
  });
}

double ReadCeiling::Measure() { return Measure(best_); }

double ReadCeiling::Measure(const ReadPattern& pattern) {
  const auto* floats = reinterpret_cast<const float*>(AreaOf(pattern).data()) + next_;
  next_ = (next_ + kPass) % kArea;
  const size_t chunk = pattern.chunk / sizeof(float);
  std::vector<float> sums(kPass / chunk);
  const double start = Seconds(pool_.num_threads());
  pool_.ParallelFor(static_cast<int64_t>(sums.size()), [&](int64_t index, int) {
    sums[index] = HWY_DYNAMIC_DISPATCH(SumOf)(floats + index * chunk, chunk, pattern);
  });
  const double seconds = Seconds(pool_.num_threads()) - start;
  for (const float sum : sums) SLUICE_CHECK(sum == static_cast<float>(chunk));
  return kPass * sizeof(float) / seconds;
}

std::string_view InstructionOf(Arithmetic arithmetic) { return LoopOf(arithmetic).instruction; }

double MeasurePeak(ThreadPool& pool, Arithmetic arithmetic) {
  const PeakLoop loop = LoopOf(arithmetic);
  if (loop.run == nullptr) return 0;
  int64_t rounds = 500;
  double seconds = 0;
  double rate = OperationsPerSecond(pool, loop, rounds, &seconds);
  while (seconds < kPeakSeconds) {
    rounds *= 2;
    rate = OperationsPerSecond(pool, loop, rounds, &seconds);
  }
  return rate;
}

Arithmetic ArithmeticOf(WeightFormat format) {
  const bool narrow = format != WeightFormat::kF32 && !InstructionOf(Arithmetic::kBF16).empty();
  return narrow ? Arithmetic::kBF16 : Arithmetic::kF32;
}

}  // namespace sluice::testing
#endif  // HWY_ONCE
