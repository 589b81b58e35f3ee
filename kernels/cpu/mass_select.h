// The smallest set of leading elements that together reach a mass, without sorting them all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace sluice {

// The set is: every element with a key above `key`, and of those with that key the first `count`.
struct MassCut {
  double key = 0;
  size_t count = 0;

  // Whether an element belongs to the set; asked once for each, in their order.
  bool Takes(double of_element) {
    if (of_element == key) [[unlikely]] {
      return count > 0 && count-- > 0;
    }
    return of_element > key;
  }
};

// Memory to work in; passing it again saves its allocation.
struct MassScratch {
  std::vector<double> keys, masses;
  std::vector<int32_t> buckets;
};

// Elements lead by falling key, of equal keys the first one. One belongs to the set while the
// masses of those before it, added up, are below `target`; all do where that is never reached.
// REQUIRES: as many finite keys as masses, at least one; masses are not negative; target > 0.
MassCut SelectMass(absl::Span<const double> keys, absl::Span<const double> masses, double target,
                   MassScratch& scratch);

}  // namespace sluice
