// Rows of one weight format as those of another that has the same scales and numbers, or as plain
// elements: what a backend packs where it multiplies no groups of the first. Thread-safe.
#pragma once

#include "kernels/backend.h"

namespace sluice {

// Reads rows of `spec` in the format `as`, in place of spec.format.weights. `read` must live as long.
// REQUIRES: what RegroupRows does, unless the two are the same or `as` is plain.
RowReader RowsAs(WeightFormat as, const PackSpec& spec, const RowReader& read);

}  // namespace sluice
