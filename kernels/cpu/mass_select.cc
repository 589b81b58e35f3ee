#include "kernels/cpu/mass_select.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <utility>

namespace sluice {
namespace {

constexpr size_t kBuckets = 1024;
constexpr size_t kFewEnoughToSort = 64;

// Maps keys in [least, most], least < most, to buckets; larger keys to lower ones.
class Buckets {
 public:
  Buckets(double least, double most) : most_(most), scale_(kBuckets / (most - least)) {}
  size_t operator()(double key) const {
    return std::min(kBuckets - 1, static_cast<size_t>((most_ - key) * scale_));
  }

 private:
  double most_, scale_;
};

// The first bucket with which the sum from `before` on reaches `target`, or the last one that holds
// anything; adds to `before` what comes before it.
size_t FindBucket(const std::array<double, kBuckets>& masses,
                  const std::array<uint32_t, kBuckets>& counts, double target, double& before) {
  size_t last = kBuckets - 1;
  while (counts[last] == 0) --last;
  size_t bucket = 0;
  while (bucket < last && before + masses[bucket] < target) before += masses[bucket++];
  return bucket;
}

// By sorting the members; `before` is the mass of what leads them.
MassCut CutAmong(std::vector<size_t>& members, absl::Span<const double> keys,
                 absl::Span<const double> masses, double before, double target) {
  std::stable_sort(members.begin(), members.end(),
                   [&](size_t a, size_t b) { return keys[a] > keys[b]; });
  MassCut cut;
  for (const size_t member : members) {
    if (cut.count > 0 && before >= target) break;
    cut.count = keys[member] == cut.key && cut.count > 0 ? cut.count + 1 : 1;
    cut.key = keys[member];
    before += masses[member];
  }
  return cut;
}

}  // namespace

MassCut SelectMass(absl::Span<const double> keys, absl::Span<const double> masses, double target,
                   std::vector<size_t>& scratch) {
  std::vector<size_t>& members = scratch;  // of the stretch in which the cut lies, in order
  members.clear();
  bool all = true;  // every element is a member; `members` is not filled yet
  const auto for_each_member = [&](auto f) {
    if (all) {
      for (size_t i = 0; i < keys.size(); ++i) f(i);
    } else {
      for (const size_t i : members) f(i);
    }
  };
  double before = 0;  // the masses of all above the stretch
  for (;;) {
    double most = -HUGE_VAL, least = HUGE_VAL;
    for_each_member([&](size_t i) {
      most = std::max(most, keys[i]);
      least = std::min(least, keys[i]);
    });
    const bool few = !all && members.size() <= kFewEnoughToSort;
    // A spread whose inverse overflows leaves next to nothing to tell apart by buckets.
    if (few || !(most - least > 1e-290) || most - least == HUGE_VAL) break;
    const Buckets bucket_of(least, most);
    std::array<double, kBuckets> sums{};
    std::array<uint32_t, kBuckets> counts{};
    for_each_member([&](size_t i) {
      const size_t bucket = bucket_of(keys[i]);
      sums[bucket] += masses[i];
      ++counts[bucket];
    });
    const size_t found = FindBucket(sums, counts, target, before);
    std::vector<size_t> left;
    left.reserve(counts[found]);
    for_each_member([&](size_t i) {
      if (bucket_of(keys[i]) == found) left.push_back(i);
    });
    members = std::move(left);
    all = false;
  }
  if (all) {
    members.resize(keys.size());
    std::iota(members.begin(), members.end(), size_t{0});
  }
  return CutAmong(members, keys, masses, before, target);
}

}  // namespace sluice
