#include "kernels/cpu/mass_select.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/mass_select.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

#ifndef SLUICE_KERNELS_CPU_MASS_SELECT_BUCKETS_
#define SLUICE_KERNELS_CPU_MASS_SELECT_BUCKETS_
namespace sluice {

inline constexpr int32_t kBuckets = 1024;

struct KeyRange {
  double least, most;

  double size() const { return most - least; }
};

// A run of elements in which the cut lies.
struct Stretch {
  absl::Span<const double> keys, masses;
};

}  // namespace sluice
#endif

HWY_BEFORE_NAMESPACE();
namespace sluice {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using DoubleTag = hn::CappedTag<double, 8>;
using BucketTag = hn::Rebind<int32_t, DoubleTag>;

KeyRange RangePass(const double* keys, size_t count) {
  const DoubleTag d;
  const size_t lanes = hn::Lanes(d);
  auto least = hn::Set(d, keys[0]), most = least;
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto key = hn::LoadU(d, keys + i);
    least = hn::Min(least, key);
    most = hn::Max(most, key);
  }
  KeyRange range{hn::GetLane(hn::MinOfLanes(d, least)), hn::GetLane(hn::MaxOfLanes(d, most))};
  for (; i < count; ++i) {
    range = {std::min(range.least, keys[i]), std::max(range.most, keys[i])};
  }
  return range;
}

// Larger keys to lower buckets.
void BucketsPass(const double* keys, size_t count, KeyRange range, int32_t* buckets) {
  const double scale = kBuckets / range.size();
  const auto put = [&](auto d, size_t i) HWY_ATTR {
    const hn::Rebind<int32_t, decltype(d)> di;
    const auto distance = hn::Sub(hn::Set(d, range.most), hn::LoadU(d, keys + i));
    const auto bucket = hn::DemoteTo(di, hn::Mul(distance, hn::Set(d, scale)));
    hn::StoreU(hn::Min(bucket, hn::Set(di, kBuckets - 1)), di, buckets + i);
  };
  const size_t lanes = hn::Lanes(DoubleTag());
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) put(DoubleTag(), i);
  for (; i < count; ++i) put(hn::CappedTag<double, 1>(), i);
}

// The elements of `bucket`, in order; how many. What is written may be where they are read.
size_t KeepPass(Stretch stretch, const int32_t* buckets, int32_t bucket, double* keys,
                double* masses) {
  const BucketTag d;
  const size_t lanes = hn::Lanes(d), size = stretch.keys.size();
  const auto wanted = hn::Set(d, bucket);
  size_t count = 0;
  for (size_t i = 0; i < size;) {
    const bool whole = i + lanes <= size;
    const size_t end = whole ? i + lanes : size;
    if (whole && hn::AllFalse(d, hn::Eq(hn::LoadU(d, buckets + i), wanted))) i = end;
    for (; i < end; ++i) {
      if (buckets[i] != bucket) continue;
      keys[count] = stretch.keys[i];
      masses[count++] = stretch.masses[i];
    }
  }
  return count;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace sluice
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice {

HWY_EXPORT(RangePass);
HWY_EXPORT(BucketsPass);
HWY_EXPORT(KeepPass);

namespace {

constexpr size_t kFewEnoughToSort = 64;

struct Histogram {
  std::array<double, kBuckets> masses{};
  std::array<uint32_t, kBuckets> counts{};
};

// The first bucket with which the sum from `before` on reaches `target`, or the last one that holds
// anything; adds to `before` what comes before it.
int32_t FindBucket(const Histogram& histogram, double target, double& before) {
  int32_t last = kBuckets - 1;
  while (histogram.counts[last] == 0) --last;
  int32_t bucket = 0;
  while (bucket < last && before + histogram.masses[bucket] < target) {
    before += histogram.masses[bucket++];
  }
  return bucket;
}

// The elements of the bucket in which the cut lies, in order, in `scratch`, of which the stretch
// may be a part already.
Stretch Narrow(const Stretch& stretch, const KeyRange& range, double target, MassScratch& scratch,
               double& before) {
  const size_t size = stretch.keys.size();
  std::vector<int32_t>& buckets = scratch.buckets;
  buckets.resize(std::max(buckets.size(), size));
  HWY_DYNAMIC_DISPATCH(BucketsPass)(stretch.keys.data(), size, range, buckets.data());
  Histogram histogram;
  for (size_t i = 0; i < size; ++i) {
    histogram.masses[buckets[i]] += stretch.masses[i];
    ++histogram.counts[buckets[i]];
  }
  const int32_t found = FindBucket(histogram, target, before);
  scratch.keys.resize(std::max<size_t>(scratch.keys.size(), histogram.counts[found]));
  scratch.masses.resize(scratch.keys.size());
  const size_t count = HWY_DYNAMIC_DISPATCH(KeepPass)(stretch, buckets.data(), found,
                                                      scratch.keys.data(), scratch.masses.data());
  return {absl::MakeSpan(scratch.keys).first(count), absl::MakeSpan(scratch.masses).first(count)};
}

// By sorting; `before` is the mass of what leads the stretch.
MassCut CutAmong(const Stretch& stretch, double before, double target) {
  std::vector<size_t> order(stretch.keys.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return stretch.keys[a] > stretch.keys[b]; });
  MassCut cut;
  for (const size_t element : order) {
    if (cut.count > 0 && before >= target) break;
    cut.count = stretch.keys[element] == cut.key && cut.count > 0 ? cut.count + 1 : 1;
    cut.key = stretch.keys[element];
    before += stretch.masses[element];
  }
  return cut;
}

}  // namespace

MassCut SelectMass(absl::Span<const double> keys, absl::Span<const double> masses, double target,
                   MassScratch& scratch) {
  Stretch stretch{keys, masses};
  double before = 0;  // the masses of all above the stretch
  for (bool narrowed = false;; narrowed = true) {
    if (narrowed && stretch.keys.size() <= kFewEnoughToSort) break;
    const KeyRange range =
        HWY_DYNAMIC_DISPATCH(RangePass)(stretch.keys.data(), stretch.keys.size());
    // A spread whose inverse overflows leaves next to nothing to tell apart by buckets.
    if (!(range.size() > 1e-290) || range.size() == HUGE_VAL) break;
    stretch = Narrow(stretch, range, target, scratch, before);
  }
  return CutAmong(stretch, before, target);
}

}  // namespace sluice
#endif  // HWY_ONCE
