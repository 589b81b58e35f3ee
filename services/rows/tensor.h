// Tensors on the wire. Thread-safe.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/dtype.h"
#include "sluice/v1/tensor.pb.h"

namespace sluice {

v1::DataType ToProto(DType dtype);

// A tensor of `dtype` and `shape` with room for its data; the caller fills mutable_data().
v1::Tensor NewTensor(DType dtype, std::initializer_list<int64_t> shape);

// OK if `tensor` says that it is [any number of rows, cols] of `dtype`, else INVALID_ARGUMENT saying
// what differs.
absl::Status CheckShape(const v1::Tensor& tensor, DType dtype, int64_t cols);

// OK if `tensor` is [any number of rows, cols] of `dtype` with exactly the bytes that its shape
// says, else INVALID_ARGUMENT saying what differs.
absl::Status CheckMatrix(const v1::Tensor& tensor, DType dtype, int64_t cols);

}  // namespace sluice
