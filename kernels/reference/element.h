// Elements of matrices in host memory, F32 or BF16.
#pragma once

#include <cstdint>

#include "kernels/check.h"
#include "kernels/dtype.h"
#include "kernels/matrix_view.h"

namespace sluice {

inline float LoadElement(MatrixView matrix, int64_t row, int64_t column) {
  if (matrix.dtype == DType::kF32) return matrix.Row(row)[column];
  SLUICE_CHECK(matrix.dtype == DType::kBF16);
  return FloatFromBFloat16(matrix.Row<uint16_t>(row)[column]);
}

// Rounds to nearest even where the matrix is BF16.
inline void StoreElement(MatrixView matrix, int64_t row, int64_t column, float value) {
  if (matrix.dtype == DType::kF32) {
    matrix.Row(row)[column] = value;
    return;
  }
  SLUICE_CHECK(matrix.dtype == DType::kBF16);
  matrix.Row<uint16_t>(row)[column] = BFloat16FromFloat(value);
}

}  // namespace sluice
