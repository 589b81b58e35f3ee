// The smallest set of leading elements that together reach a mass, without sorting them all.
#pragma once

#include <cstddef>
#include <vector>

#include "absl/types/span.h"

namespace sluice {

// The set is: every element with a key above `key`, and of those with that key the first `count`.
struct MassCut {
  double key = 0;
  size_t count = 0;

  // Whether an element belongs to the set; asked once for each, in their order.
  bool Takes(double of_element) {
    if (of_element != key) return of_element > key;
    if (count == 0) return false;
    --count;
    return true;
  }
};

// Elements lead by falling key, of equal keys the first one. One belongs to the set while the
// masses of those before it, added up, are below `target`; all do where that is never reached.
// `scratch` is overwritten; passing it again saves its allocation.
// REQUIRES: as many finite keys as masses, at least one; masses are not negative; target > 0.
MassCut SelectMass(absl::Span<const double> keys, absl::Span<const double> masses, double target,
                   std::vector<size_t>& scratch);

}  // namespace sluice
