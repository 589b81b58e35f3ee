// Whether a backend computes what it should on the machine at hand: kernels that were never run on
// a processor are not trusted with a model before they have.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/backend.h"

namespace sluice {

// Compares every operation of `backend` on small random operands with the plain loops of
// kernels/reference; takes some milliseconds. INTERNAL naming the operation and the two values
// where they are further apart than rounding explains, or the backend's own failure.
absl::Status SelfCheck(Backend& backend);

// The product that CheckBatchSizes looks at: of kSlices slices, each longer than a pipeline is deep.
struct BatchSizes {
  static constexpr int kSlices = 4;

  int64_t rows, outputs;
  int64_t inputs_per_slice = int64_t{11} * 64;
};

// For a GPU: two of its large tiles, 128 outputs by 128 rows, for each multiprocessor, so that none
// share a product's slices; an odd number of them by outputs, and the last not full.
constexpr BatchSizes BatchSizesFor(int num_multiprocessors) {
  const int64_t tiles = int64_t{2} * num_multiprocessors;
  int64_t by_outputs = 1;
  while (by_outputs * by_outputs < tiles) by_outputs += 2;
  const int64_t by_rows = (tiles + by_outputs - 1) / by_outputs;
  return {.rows = by_rows * 128 - 28, .outputs = by_outputs * 128 - 40};
}
// Fewer of its rows: still large tiles, but for less than half of the multiprocessors, so that they share
// slices. 0 where those are too few for that.
constexpr int64_t RowsThatShareSlices(const BatchSizes& sizes) {
  const int64_t by_rows = (sizes.rows + 127) / 128;
  return by_rows / 5 * 128;
}

// Whether rows of a product have the same bits by themselves and among all, in every format but F32:
// one, 16, 32, and halves of the first and the last tile of 128 rows, which a device multiplies in tiles
// of different sizes. What its promise of batch invariance rests on, and what no document says of its
// instructions. INTERNAL where they have not.
absl::Status CheckBatchSizes(Backend& backend, const BatchSizes& sizes);

}  // namespace sluice
