#include "services/common/step_rows.h"

#include <cstddef>

#include "absl/strings/str_cat.h"
#include "services/common/tensor.h"

namespace sluice {

absl::Status StepRows::Resize(int64_t rows) {
  const size_t bytes = static_cast<size_t>(backend_.BucketRows(rows) * cols_) * sizeof(float);
  if (buffer_ == nullptr || buffer_->size_bytes() < bytes) {
    absl::StatusOr<std::unique_ptr<Buffer>> buffer = backend_.Allocate(bytes);
    if (!buffer.ok()) return buffer.status();
    buffer_ = *std::move(buffer);
  }
  rows_ = rows;
  return absl::OkStatus();
}

absl::Status StepRows::Load(const v1::Tensor& tensor) {
  absl::Status status = CheckMatrix(tensor, DType::kF32, cols_);
  if (!status.ok()) return status;
  status = Resize(tensor.shape(0));
  if (!status.ok() || rows_ == 0) return status;
  backend_.CopyIn(absl::MakeConstSpan(reinterpret_cast<const std::byte*>(tensor.data().data()),
                                      tensor.data().size()),
                  buffer_->data());
  return absl::OkStatus();
}

absl::StatusOr<v1::Tensor> StepRows::Store() const {
  v1::Tensor tensor = NewTensor(DType::kF32, {rows_, cols_});
  if (rows_ == 0) return tensor;
  const absl::Status status = backend_.CopyOut(
      buffer_->data(), absl::MakeSpan(reinterpret_cast<std::byte*>(tensor.mutable_data()->data()),
                                      tensor.data().size()));
  if (!status.ok()) return status;
  return tensor;
}

absl::StatusOr<v1::Tensor> StepRows::Store(absl::Span<const int32_t> indices) const {
  v1::Tensor tensor = NewTensor(DType::kF32, {static_cast<int64_t>(indices.size()), cols_});
  for (size_t i = 0; i < indices.size(); ++i) {
    if (indices[i] < 0 || indices[i] >= rows_) {
      return absl::InvalidArgumentError(
          absl::StrCat("output row ", indices[i], " of a step with ", rows_, " rows"));
    }
    const absl::Status status =
        backend_.CopyOut(view().Rows(indices[i], 1).data, HostRow(tensor, static_cast<int64_t>(i)));
    if (!status.ok()) return status;
  }
  return tensor;
}

MatrixView StepRows::view() const {
  return {buffer_ == nullptr ? nullptr : buffer_->data(), DType::kF32, rows_, cols_, cols_};
}

absl::Span<std::byte> StepRows::HostRow(v1::Tensor& tensor, int64_t row) const {
  const size_t row_bytes = static_cast<size_t>(cols_) * sizeof(float);
  return absl::MakeSpan(
      reinterpret_cast<std::byte*>(tensor.mutable_data()->data()) + row * row_bytes, row_bytes);
}

}  // namespace sluice
