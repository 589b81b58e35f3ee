// Weight matrices as devices keep them, and what they are made of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/matrix_format.h"

namespace sluice {

// A weight matrix [N, K] in whatever layout the backend multiplies fastest.
class PackedMatrix {
 public:
  virtual ~PackedMatrix() = default;
  virtual int64_t num_outputs() const = 0;  // N
  virtual int64_t num_inputs() const = 0;   // K
  virtual size_t size_bytes() const = 0;
};

struct PackSpec {
  int64_t num_outputs = 0;
  int64_t num_inputs = 0;
  // With activations in FP8, a device that multiplies FP8 numbers may round a slice of an output's
  // weights to FP8 numbers relative to one scale: what is no multiple of 2^-9 of the largest group's
  // scale, if all of them are powers of two.
  MatrixFormat format;
  // Number of equal runs of K that are each summed in order of k and then joined in a binary tree.
  // A power of two that divides K. 1 where no reduction ever crosses ranks. A run is a
  // multiple of the weight format's group.
  int num_slices = 1;
  // The outputs are F gates and then F ups, N = 2F: Gemm joins each gate with its up.
  bool gated = false;
};

// Writes rows [row_begin, row_end) of a matrix one after another, each as weight_format.h describes
// a row in the weight format of the PackSpec. Called by several threads at a time.
using RowReader =
    std::function<absl::Status(int64_t row_begin, int64_t row_end, absl::Span<std::byte> out)>;

}  // namespace sluice
