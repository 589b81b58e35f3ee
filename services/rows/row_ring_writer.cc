#include "services/rows/row_ring_writer.h"

#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace sluice {

absl::Status RowRingWriter::Taken(uint64_t position) {
  absl::MutexLock lock(&mutex_);
  if (ring_ == nullptr || !space_.Take(position)) {
    return absl::InvalidArgumentError(
        absl::StrCat("rows up to ", position, " were taken out of a ring that never had them"));
  }
  is_open_ = true;
  return absl::OkStatus();
}

std::optional<uint64_t> RowRingWriter::Reserve(uint64_t bytes) {
  absl::MutexLock lock(&mutex_);
  if (!is_open_ || bytes == 0) return std::nullopt;
  return space_.Reserve(bytes);
}

absl::Status RowRingWriter::Store(StepRows& rows, std::optional<absl::Span<const int32_t>> indices,
                                  v1::PushStep& step) {
  const int64_t count = indices.has_value() ? static_cast<int64_t>(indices->size()) : rows.rows();
  const std::optional<uint64_t> position = Reserve(rows.BytesOf(count));
  if (!position.has_value()) {
    absl::StatusOr<v1::Tensor> hidden = indices.has_value() ? rows.Store(*indices) : rows.Store();
    if (!hidden.ok()) return hidden.status();
    *step.mutable_hidden() = *std::move(hidden);
    return absl::OkStatus();
  }
  const absl::Status copied = rows.CopyTo(ring_->data() + *position % ring_->capacity(), indices);
  if (!copied.ok()) return copied;
  *step.mutable_hidden() = rows.DescriptionOf(count);
  step.mutable_in_ring()->set_position(*position);
  return ring_->backend().Synchronize();
}

}  // namespace sluice
