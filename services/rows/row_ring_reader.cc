#include "services/rows/row_ring_reader.h"

#include <algorithm>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "kernels/memory_sharing.h"
#include "services/messages/wiring_message.h"
#include "services/rows/ring_space.h"

namespace sluice {

absl::Status RowRingReader::Open(const v1::RowRingOffer& ring, const WiringIdentity& wiring) {
  if (memory_ != nullptr) return absl::FailedPreconditionError("a ring is open already");
  if (absl::Status same = CheckWiring(ring, wiring); !same.ok()) return same;
  MemorySharing* const sharing = backend_.sharing();
  if (sharing == nullptr) return absl::UnimplementedError("this device shares no memory");
  if (ring.handle().size() > MemorySharing::kMostHandleBytes) {
    return absl::InvalidArgumentError(absl::StrCat(ring.handle().size(),
                                                   " bytes of a handle; accepted: at most ",
                                                   MemorySharing::kMostHandleBytes));
  }
  absl::StatusOr<std::unique_ptr<Buffer>> memory = sharing->OpenShared(ring.handle());
  if (!memory.ok()) return memory.status();
  const uint64_t capacity = ring.capacity_bytes();
  if (capacity == 0 || capacity % kRingAlignment != 0 || capacity > (*memory)->size_bytes()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a ring of ", capacity, " bytes in memory of ", (*memory)->size_bytes()));
  }
  memory_ = *std::move(memory);
  capacity_ = capacity;
  return absl::OkStatus();
}

void RowRingReader::Close() {
  if (memory_ == nullptr) return;
  // Work that is not done may still read: its backend is lost, and the memory stays until the
  // process ends.
  if (absl::IsDeadlineExceeded(backend_.Synchronize())) static_cast<void>(memory_.release());
  memory_.reset();
}

absl::Status RowRingReader::Load(const v1::PushStep& step, StepRows& rows) {
  if (step.has_in_ring()) return LoadFromRing(step, rows);
  lacks_room_ = true;
  return rows.Load(step.hidden());
}

absl::Status RowRingReader::LoadFromRing(const v1::PushStep& step, StepRows& rows) {
  const uint64_t position = step.in_ring().position();
  if (memory_ == nullptr) {
    return absl::InvalidArgumentError("rows in a ring that was not opened");
  }
  const absl::StatusOr<int64_t> count = rows.RowsOfDescription(step.hidden());
  if (!count.ok()) return count.status();
  // Every factor is small: the count is at most what the ring holds.
  if (*count > static_cast<int64_t>(capacity_ / rows.BytesOf(1))) {
    return absl::InvalidArgumentError(
        absl::StrCat(*count, " rows in a ring of ", capacity_, " bytes"));
  }
  const uint64_t bytes = rows.BytesOf(*count);
  const uint64_t offset = position % capacity_;
  if (position % kRingAlignment != 0 || offset + bytes > capacity_) {
    return absl::InvalidArgumentError(
        absl::StrCat(bytes, " bytes of rows at ", position, " of a ring of ", capacity_, " bytes"));
  }
  const auto* const begin = static_cast<const std::byte*>(memory_->data());
  if (absl::Status loaded = rows.LoadFrom(begin + offset, *count); !loaded.ok()) return loaded;
  taken_ = std::max(taken_, position + RingBytes(bytes));
  return absl::OkStatus();
}

std::optional<uint64_t> RowRingReader::Done() {
  // A quarter at a time leaves small steps their room; a large one may lack what was taken since.
  const bool is_due = std::exchange(lacks_room_, false) || taken_ - reported_ >= capacity_ / 4;
  if (!is_due || taken_ == reported_) return std::nullopt;
  reported_ = taken_;
  return reported_;
}

}  // namespace sluice
