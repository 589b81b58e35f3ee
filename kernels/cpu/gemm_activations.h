// The activations of a product as its kernel reads them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/backend.h"
#include "kernels/cpu/context.h"
#include "kernels/cpu/packed_matrix.h"

namespace sluice {

// Fields of SliceRun for all rows of an operand. Valid until the next call with the same context.
struct GemmActivations {
  const void* x;
  int64_t x_stride;
  int64_t tile_rows;
  const float* sums;
  int64_t sums_stride;
};

// Rounds and rearranges x [T, K] for `weights`. A row's result does not depend on the others.
GemmActivations PrepareActivations(CpuContext& context, MatrixView x,
                                   const CpuPackedMatrix& weights);

// The same in memory of the caller, 64-byte aligned, of BytesOfActivations(), which is a multiple
// of 64: valid as long as that.
GemmActivations PrepareActivations(CpuContext& context, MatrixView x,
                                   const CpuPackedMatrix& weights, std::byte* memory);
size_t BytesOfActivations(const CpuPackedMatrix& weights, int64_t rows);

// Allocates what PrepareActivations takes for up to `max_rows` rows.
void ReserveActivations(CpuContext& context, const CpuPackedMatrix& weights, int64_t max_rows);

}  // namespace sluice
