// The memory of a stage's row ring: one for all epochs of a process, since those who have opened it
// may have it open when the next epoch begins. Belongs to the backend's thread.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/communicator/wiring_identity.h"
#include "kernels/memory_sharing.h"
#include "sluice/v1/stage.pb.h"

namespace sluice {

class RowRing {
 public:
  // Room for two steps of 2,048 rows: one is read while the next is written. `rows` says more where
  // steps may be larger, and what finds no room goes in the message.
  static constexpr int64_t kRows = 4096;

  // For rows of `hidden_size` F32 elements in memory of `backend`, which must outlive it.
  RowRing(Backend& backend, int64_t hidden_size, int64_t rows = kRows);

  // The ring as the receiver in this wiring is told of it; allocates it at the first call.
  // UNIMPLEMENTED where the backend shares no memory, otherwise the status of
  // MemorySharing::AllocateShared.
  absl::StatusOr<v1::RowRingOffer> Offer(const WiringIdentity& wiring);

  // REQUIRES: Offer() was OK.
  std::byte* data() const;
  size_t capacity() const { return capacity_; }
  Backend& backend() const { return backend_; }

 private:
  Backend& backend_;
  const size_t capacity_;
  MemorySharing::Shared shared_;  // once offered
};

}  // namespace sluice
