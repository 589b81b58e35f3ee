#include "kernels/cpu/mass_select.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

namespace sluice {
namespace {

// By sorting everything: which elements belong to the set.
std::vector<bool> SortedSet(const std::vector<double>& keys, const std::vector<double>& masses,
                            double target) {
  std::vector<size_t> order(keys.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return keys[a] > keys[b]; });
  std::vector<bool> chosen(keys.size(), false);
  double before = 0;
  for (const size_t i : order) {
    if (before >= target) break;
    chosen[i] = true;
    before += masses[i];
  }
  return chosen;
}

std::vector<bool> SetOf(MassCut cut, const std::vector<double>& keys) {
  std::vector<bool> chosen;
  for (const double key : keys) chosen.push_back(cut.Takes(key));
  return chosen;
}

// Masses are multiples of 2^-20, so that sums are exact in any order.
TEST(MassSelect, ChoosesWhatSortingChooses) {
  std::mt19937 random(1);
  MassScratch scratch;
  for (int i = 0; i < 400; ++i) {
    const size_t size = 1 + random() % (i % 8 == 0 ? 20000 : 300);
    const double spread = std::vector<double>{0, 1e-300, 1e-6, 1, 40, 1e300}[i % 6];
    std::vector<double> keys(size), masses(size);
    double total = 0;
    for (size_t j = 0; j < size; ++j) {
      keys[j] = i % 3 == 0 ? static_cast<double>(random() % 7)
                           : spread * std::normal_distribution<double>()(random) / 1000;
      masses[j] = static_cast<double>(random() % 5 == 0 ? 0 : random() % 4096) * 0x1p-20;
      total += masses[j];
    }
    for (const double share : {1e-9, 0.1, 0.5, 0.95, 0.999999, 1.0, 2.0}) {
      const double target = std::max(share * total, 1e-9);
      EXPECT_EQ(SetOf(SelectMass(keys, masses, target, scratch), keys),
                SortedSet(keys, masses, target))
          << size << " elements, spread " << spread << ", share " << share;
    }
  }
}

}  // namespace
}  // namespace sluice
