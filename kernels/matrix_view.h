// Matrices as operations see them.
#pragma once

#include <cstdint>

#include "kernels/dtype.h"

namespace sluice {

// A row-major [rows, cols] view; `stride` elements lie between the starts of two rows. Borrows its
// memory.
struct MatrixView {
  void* data = nullptr;
  DType dtype = DType::kF32;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t stride = 0;

  // Where a row begins; T is what `dtype` says. Memory of the backend: for its operations alone.
  template <class T = float>
  T* Row(int64_t row) const {
    return static_cast<T*>(data) + row * stride;
  }
  MatrixView Rows(int64_t begin, int64_t count) const {
    return {static_cast<char*>(data) + begin * stride * SizeOf(dtype), dtype, count, cols, stride};
  }
  MatrixView Columns(int64_t begin, int64_t count) const {
    return {static_cast<char*>(data) + begin * SizeOf(dtype), dtype, rows, count, stride};
  }
};

// One place in a matrix.
struct MatrixElement {
  int64_t row = 0;
  int64_t col = 0;
};

}  // namespace sluice
