// Matrices of tests: made on the host, copied into a backend, read back and compared.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/backend.h"

namespace sluice::testing {

// A row-major [rows, cols] matrix of floats without padding.
struct HostMatrix {
  HostMatrix(int64_t rows, int64_t cols) : rows(rows), cols(cols), values(rows * cols) {}
  HostMatrix(int64_t rows, int64_t cols, std::vector<float> values)
      : rows(rows), cols(cols), values(std::move(values)) {}

  float& At(int64_t row, int64_t col) { return values[row * cols + col]; }
  float At(int64_t row, int64_t col) const { return values[row * cols + col]; }
  // Rows [begin, begin + count) and columns [begin, begin + count).
  HostMatrix Rows(int64_t begin, int64_t count) const;
  HostMatrix Columns(int64_t begin, int64_t count) const;

  int64_t rows;
  int64_t cols;
  std::vector<float> values;
};

using Random = std::mt19937;

// Normally distributed elements.
HostMatrix RandomMatrix(Random& random, int64_t rows, int64_t cols, float deviation = 1);
int64_t RandomInt(Random& random, int64_t lowest, int64_t highest);
// Every element rounded to bfloat16.
HostMatrix RoundedToBFloat16(HostMatrix matrix);

// A matrix in a backend's memory, F32 or BF16, with `padding` elements between rows that no
// operation may touch: Read() fails the test if one did.
class DeviceMatrix {
 public:
  DeviceMatrix(Backend& backend, const HostMatrix& host, int64_t padding = 0,
               DType dtype = DType::kF32);
  // Filled with NaN, so that an element an operation forgets is noticed.
  DeviceMatrix(Backend& backend, int64_t rows, int64_t cols, int64_t padding = 0);

  MatrixView view() const { return view_; }
  float* data() const { return static_cast<float*>(view_.data); }
  HostMatrix Read() const;

 private:
  Backend* backend_;
  std::unique_ptr<Buffer> buffer_;
  MatrixView view_;
};

// Packs `weights` [N, K], rounded or quantised to the spec's format; the spec's N and K are theirs.
std::unique_ptr<PackedMatrix> Pack(Backend& backend, const HostMatrix& weights, PackSpec spec);
std::unique_ptr<PackedMatrix> Pack(Backend& backend, const HostMatrix& weights,
                                   WeightFormat format = WeightFormat::kF32, int num_slices = 1);

// Whether every element of `actual` lies within absolute + relative * |expected|; NaN and
// infinities equal themselves. The failure names the worst element.
::testing::AssertionResult IsNear(const HostMatrix& actual, const HostMatrix& expected,
                                  double absolute, double relative = 0);
// Whether all bits agree. The failure names the first difference.
::testing::AssertionResult SameBits(const HostMatrix& actual, const HostMatrix& expected);

}  // namespace sluice::testing
