#include "services/rows/row_ring.h"

#include <utility>

#include "kernels/check.h"
#include "services/messages/wiring_message.h"
#include "services/rows/ring_space.h"

namespace sluice {

RowRing::RowRing(Backend& backend, int64_t hidden_size, int64_t rows)
    : backend_(backend),
      capacity_(RingBytes(static_cast<uint64_t>(rows * hidden_size) * sizeof(float))) {}

absl::StatusOr<v1::RowRingOffer> RowRing::Offer(const WiringIdentity& wiring) {
  if (shared_.memory == nullptr) {
    MemorySharing* const sharing = backend_.sharing();
    if (sharing == nullptr) return absl::UnimplementedError("this device shares no memory");
    absl::StatusOr<MemorySharing::Shared> shared = sharing->AllocateShared(capacity_);
    if (!shared.ok()) return shared.status();
    shared_ = *std::move(shared);
  }
  v1::RowRingOffer ring;
  ring.set_handle(shared_.handle);
  ring.set_capacity_bytes(capacity_);
  SetWiring(wiring, ring);
  return ring;
}

std::byte* RowRing::data() const {
  SLUICE_CHECK(shared_.memory != nullptr);
  return static_cast<std::byte*>(shared_.memory->data());
}

}  // namespace sluice
