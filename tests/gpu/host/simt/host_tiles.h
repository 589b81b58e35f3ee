// Instructions on tiles, in plain loops.
#pragma once

#include <cstdint>

namespace sluice::cuda {

// Eight columns of a row of a tile. Products of BF16 and of FP8 numbers are exact in double; how the
// hardware adds them up is not documented.
struct EightDoubles {
  using Pair = double __attribute__((vector_size(16)));  // what every processor has registers for
  Pair pairs[4];

  double operator[](int column) const { return pairs[column / 2][column % 2]; }
  void Set(int column, double value) { pairs[column / 2][column % 2] = value; }
};

// The sums of a[k] * b[k] over the k below `count`, in their order.
EightDoubles SumOfProducts(const double* a, const EightDoubles* b, int count);

// See simt.h; called by all lanes of a warp.
void HostLoadMatrices(const void* row, bool transposed, uint32_t (&out)[4]);
void HostMultiplyTiles(const uint32_t (&a)[4], uint32_t b0, uint32_t b1, float (&c)[4]);

}  // namespace sluice::cuda
