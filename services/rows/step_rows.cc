#include "services/rows/step_rows.h"

#include <cstddef>

#include "absl/strings/str_cat.h"
#include "kernels/memory_sharing.h"
#include "services/rows/tensor.h"

namespace sluice {

StepRows::~StepRows() {
  if (buffer_ != nullptr) backend_.Synchronize().IgnoreError();
}

absl::Status StepRows::Resize(int64_t rows) {
  absl::Status status = MakeRoom(backend_.BucketRows(rows), buffer_);
  if (status.ok()) rows_ = rows;
  return status;
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

absl::StatusOr<v1::Tensor> StepRows::Store() const { return CopyOut(view()); }

absl::Status StepRows::CheckIndices(absl::Span<const int32_t> indices) const {
  for (const int32_t index : indices) {
    if (index >= 0 && index < rows_) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("output row ", index, " of a step with ", rows_, " rows"));
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::Tensor> StepRows::Store(absl::Span<const int32_t> indices) {
  absl::Status status = CheckIndices(indices);
  if (!status.ok()) return status;
  const auto count = static_cast<int64_t>(indices.size());
  status = MakeRoom(count, gathered_);
  if (!status.ok()) return status;
  const MatrixView gathered = Rows(gathered_, count);
  if (count > 0) backend_.GatherRows(view(), indices, gathered);
  return CopyOut(gathered);
}

absl::Status StepRows::LoadFrom(const void* memory, int64_t rows) {
  absl::Status status = Resize(rows);
  if (!status.ok() || rows == 0) return status;
  backend_.sharing()->CopyShared(memory, buffer_->data(), BytesOf(rows));
  return absl::OkStatus();
}

absl::Status StepRows::CopyTo(void* memory, std::optional<absl::Span<const int32_t>> indices) {
  if (!indices.has_value()) {
    if (rows_ > 0) backend_.sharing()->CopyShared(buffer_->data(), memory, BytesOf(rows_));
    return absl::OkStatus();
  }
  absl::Status status = CheckIndices(*indices);
  if (!status.ok()) return status;
  const auto count = static_cast<int64_t>(indices->size());
  backend_.GatherRows(view(), *indices, {memory, DType::kF32, count, cols_, cols_});
  return absl::OkStatus();
}

v1::Tensor StepRows::DescriptionOf(int64_t rows) const {
  v1::Tensor tensor;
  tensor.set_dtype(ToProto(DType::kF32));
  tensor.add_shape(rows);
  tensor.add_shape(cols_);
  return tensor;
}

absl::StatusOr<int64_t> StepRows::RowsOfDescription(const v1::Tensor& tensor) const {
  absl::Status status = CheckShape(tensor, DType::kF32, cols_);
  if (!status.ok()) return status;
  if (!tensor.data().empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("rows in a ring, and ", tensor.data().size(), " bytes of them beside it"));
  }
  return tensor.shape(0);
}

absl::Status StepRows::MakeRoom(int64_t rows, std::unique_ptr<Buffer>& buffer) {
  const size_t bytes = static_cast<size_t>(rows * cols_) * sizeof(float);
  if (bytes == 0 || (buffer != nullptr && buffer->size_bytes() >= bytes)) return absl::OkStatus();
  absl::StatusOr<std::unique_ptr<Buffer>> larger = backend_.Allocate(bytes);
  if (!larger.ok()) return larger.status();
  buffer = *std::move(larger);
  return absl::OkStatus();
}

absl::StatusOr<v1::Tensor> StepRows::CopyOut(MatrixView rows) const {
  v1::Tensor tensor = NewTensor(DType::kF32, {rows.rows, cols_});
  if (rows.rows == 0) return tensor;
  const absl::Status status = backend_.CopyOut(
      rows.data, absl::MakeSpan(reinterpret_cast<std::byte*>(tensor.mutable_data()->data()),
                                tensor.data().size()));
  if (!status.ok()) return status;
  return tensor;
}

MatrixView StepRows::Rows(const std::unique_ptr<Buffer>& buffer, int64_t rows) const {
  return {buffer == nullptr ? nullptr : buffer->data(), DType::kF32, rows, cols_, cols_};
}

}  // namespace sluice
