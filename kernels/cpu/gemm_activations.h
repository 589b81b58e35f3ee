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
  const void* x = nullptr;
  int64_t x_stride = 0;
  int64_t tile_rows = 1;
  const float* sums = nullptr;
  int64_t sums_stride = 0;
};

// Rounds and rearranges x [T, K] for `weights`. A row's result does not depend on the others.
GemmActivations PrepareActivations(CpuContext& context, MatrixView x,
                                   const CpuPackedMatrix& weights);

// The same in memory of the caller, 64-byte aligned, of BytesOfActivations(), which is a multiple
// of 64: valid as long as that.
GemmActivations PrepareActivations(CpuContext& context, MatrixView x,
                                   const CpuPackedMatrix& weights, std::byte* memory);
size_t BytesOfActivations(const CpuPackedMatrix& weights, int64_t rows);
// Some rows of a matrix that are multiplied with one of several weights.
struct RowGroup {
  MatrixView x;
  const int32_t* rows = nullptr;  // those of x, `count` of them; null: its first ones
  int64_t count = 0;              // >= 1
  const CpuPackedMatrix* weights = nullptr;
};

// PrepareActivations of several groups together: out[i] is that of groups[i].
void PrepareGroups(CpuContext& context, absl::Span<const RowGroup> groups,
                   absl::Span<GemmActivations> out);
// Bytes that it takes for a group of `count` rows.
size_t GroupBytes(const CpuPackedMatrix& weights, int64_t count);

// x as products with `weights` see it before their kernels round it: to FP8, or as it is. Valid
// until the next call with the same context and part: rows of several matrices are different parts
// of memory, which begin `first` floats into it.
MatrixView AsMultiplied(CpuContext& context, MatrixView x, const CpuPackedMatrix& weights,
                        int64_t first = 0, int64_t total = 0);
void ReserveRounded(CpuContext& context, const CpuPackedMatrix& weights, int64_t max_rows);

// Allocates what PrepareActivations takes for up to `max_rows` rows.
void ReserveActivations(CpuContext& context, const CpuPackedMatrix& weights, int64_t max_rows);

}  // namespace sluice
