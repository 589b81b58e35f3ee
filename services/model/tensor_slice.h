// Half-open index ranges and the rectangle of a matrix that two of them cut out. Plain values.
#pragma once

#include <cstdint>

namespace sluice {

// The indices begin, begin + 1, ..., end - 1; empty where begin == end.
struct IndexRange {
  int64_t begin = 0;
  int64_t end = 0;

  constexpr int64_t size() const { return end - begin; }
  friend constexpr bool operator==(const IndexRange&, const IndexRange&) = default;
};

// The size of a matrix. A vector of N elements counts as N rows of one column.
struct MatrixShape {
  int64_t rows = 0;
  int64_t columns = 0;
  // Of a tensor of three dimensions, as many as the first one says: matrices of equal size, one
  // below the other. 0: of two.
  int64_t matrices = 0;

  constexpr int64_t size() const { return rows * columns; }
  friend constexpr bool operator==(const MatrixShape&, const MatrixShape&) = default;
};

// Rows x columns of a matrix; a slice of a vector has the columns {0, 1}.
struct TensorSlice {
  IndexRange rows;
  IndexRange columns;

  constexpr int64_t size() const { return rows.size() * columns.size(); }
  // The slice's own rows [begin, end), counted from its first.
  constexpr TensorSlice Rows(int64_t begin, int64_t end) const {
    return {{rows.begin + begin, rows.begin + end}, columns};
  }
  friend constexpr bool operator==(const TensorSlice&, const TensorSlice&) = default;
};

// All of a matrix.
constexpr TensorSlice WholeOf(MatrixShape shape) { return {{0, shape.rows}, {0, shape.columns}}; }

}  // namespace sluice
