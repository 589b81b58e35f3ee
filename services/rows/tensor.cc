#include "services/rows/tensor.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace sluice {

v1::DataType ToProto(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return v1::DATA_TYPE_F32;
    case DType::kF16:
      return v1::DATA_TYPE_F16;
    case DType::kBF16:
      return v1::DATA_TYPE_BF16;
    case DType::kI32:
      return v1::DATA_TYPE_I32;
    case DType::kF8E4M3:
      break;  // of keys and values, which stay where they are
  }
  return v1::DATA_TYPE_UNSPECIFIED;
}

v1::Tensor NewTensor(DType dtype, std::initializer_list<int64_t> shape) {
  v1::Tensor tensor;
  tensor.set_dtype(ToProto(dtype));
  size_t elements = 1;
  for (int64_t dimension : shape) {
    tensor.add_shape(dimension);
    elements *= static_cast<size_t>(dimension);
  }
  tensor.mutable_data()->resize(elements * SizeOf(dtype));
  return tensor;
}

absl::Status CheckShape(const v1::Tensor& tensor, DType dtype, int64_t cols) {
  if (tensor.dtype() != ToProto(dtype)) {
    return absl::InvalidArgumentError(absl::StrCat("tensor of ", v1::DataType_Name(tensor.dtype()),
                                                   ", expected ",
                                                   v1::DataType_Name(ToProto(dtype))));
  }
  if (tensor.shape_size() != 2 || tensor.shape(0) < 0 || tensor.shape(1) != cols) {
    return absl::InvalidArgumentError(absl::StrCat("tensor of shape [",
                                                   absl::StrJoin(tensor.shape(), ", "),
                                                   "], expected [rows, ", cols, "]"));
  }
  return absl::OkStatus();
}

absl::Status CheckMatrix(const v1::Tensor& tensor, DType dtype, int64_t cols) {
  if (absl::Status shape = CheckShape(tensor, dtype, cols); !shape.ok()) return shape;
  const uint64_t row_bytes = static_cast<uint64_t>(cols) * SizeOf(dtype);
  const uint64_t bytes = tensor.data().size();
  if (row_bytes == 0 || bytes % row_bytes != 0 ||
      bytes / row_bytes != static_cast<uint64_t>(tensor.shape(0))) {
    return absl::InvalidArgumentError(absl::StrCat("tensor of shape [",
                                                   absl::StrJoin(tensor.shape(), ", "), "] with ",
                                                   bytes, " bytes of data"));
  }
  return absl::OkStatus();
}

}  // namespace sluice
