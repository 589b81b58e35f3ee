// The hidden rows of the step in hand, [T, H] F32, in memory of a backend, and their way from and
// to the wire. Driven by one thread, as its backend is.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/backend.h"
#include "sluice/v1/tensor.pb.h"

namespace sluice {

class StepRows {
 public:
  // `backend` must outlive the rows.
  StepRows(Backend& backend, int64_t hidden_size) : backend_(backend), cols_(hidden_size) {}
  // Waits for the work that may still use the rows: a step that was refused has left some.
  ~StepRows();
  StepRows(const StepRows&) = delete;
  StepRows& operator=(const StepRows&) = delete;

  // Makes room for `rows` rows, and for those that Backend::BucketRows() adds; contents are
  // undefined. Allocates only where a step is larger than every one before. RESOURCE_EXHAUSTED
  // where the backend lacks memory.
  absl::Status Resize(int64_t rows);

  // The rows of `tensor`, which must be [T, H] F32: INVALID_ARGUMENT otherwise.
  absl::Status Load(const v1::Tensor& tensor);

  // All rows, or those at `indices` in that order, each in [0, T): INVALID_ARGUMENT otherwise.
  // Waits for the work that is enqueued.
  absl::StatusOr<v1::Tensor> Store() const;
  absl::StatusOr<v1::Tensor> Store(absl::Span<const int32_t> indices);

  // The same from and to memory of the backend, or that it has opened (kernels/memory_sharing.h),
  // without gaps between rows: enqueued. REQUIRES: the backend shares memory.
  absl::Status LoadFrom(const void* memory, int64_t rows);
  absl::Status CopyTo(void* memory, std::optional<absl::Span<const int32_t>> indices);

  // Type and shape of `rows` rows, without their data; and how many rows such a tensor describes:
  // INVALID_ARGUMENT where it is not [T, H] F32, or has data.
  v1::Tensor DescriptionOf(int64_t rows) const;
  absl::StatusOr<int64_t> RowsOfDescription(const v1::Tensor& tensor) const;
  // Of `rows` rows.
  uint64_t BytesOf(int64_t rows) const {
    return static_cast<uint64_t>(rows * cols_) * sizeof(float);
  }

  MatrixView view() const { return Rows(buffer_, rows_); }
  int64_t rows() const { return rows_; }

 private:
  // Sees to it that `buffer` holds so many rows.
  absl::Status MakeRoom(int64_t rows, std::unique_ptr<Buffer>& buffer);
  absl::Status CheckIndices(absl::Span<const int32_t> indices) const;
  absl::StatusOr<v1::Tensor> CopyOut(MatrixView rows) const;
  MatrixView Rows(const std::unique_ptr<Buffer>& buffer, int64_t rows) const;

  Backend& backend_;
  const int64_t cols_;
  int64_t rows_ = 0;
  std::unique_ptr<Buffer> buffer_;
  std::unique_ptr<Buffer> gathered_;  // rows on their way out
};

}  // namespace sluice
