// Whether a backend computes what it should on the machine at hand: kernels that were never run on
// a processor are not trusted with a model before they have.
#pragma once

#include "absl/status/status.h"
#include "kernels/backend.h"

namespace sluice {

// Compares every operation of `backend` on small random operands with the plain loops of
// kernels/reference; takes some milliseconds. INTERNAL naming the operation and the two values
// where they are further apart than rounding explains, or the backend's own failure.
absl::Status SelfCheck(Backend& backend);

// Whether rows of a product with BF16 weights have the same bits alone, among 16, 64 and `rows`
// rows, which a device multiplies in tiles of different sizes: what its promise of batch invariance
// rests on, and what no document says of its instructions. INTERNAL where they have not.
absl::Status CheckBatchSizes(Backend& backend, int64_t rows);

}  // namespace sluice
