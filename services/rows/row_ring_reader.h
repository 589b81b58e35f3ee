// The receiving end of a row ring in one epoch: copies a step's rows out of the sender's memory, or
// out of the message. What a peer says of its ring is checked against the memory it has opened.
// Belongs to the backend's thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "kernels/backend.h"
#include "kernels/communicator/wiring_identity.h"
#include "services/rows/step_rows.h"
#include "sluice/v1/stage.pb.h"

namespace sluice {

class RowRingReader {
 public:
  // `backend` must outlive it.
  explicit RowRingReader(Backend& backend) : backend_(backend) {}
  // Waits for the work that may still read.
  ~RowRingReader() { Close(); }
  RowRingReader(const RowRingReader&) = delete;
  RowRingReader& operator=(const RowRingReader&) = delete;

  // Statuses of MemorySharing::OpenShared; INVALID_ARGUMENT for a ring that its memory does not
  // hold, FAILED_PRECONDITION where one is open already, ABORTED where it was offered in another
  // wiring.
  absl::Status Open(const v1::RowRingOffer& ring, const WiringIdentity& wiring);
  // Rows can no longer be taken out of it.
  void Close();

  // Enqueues what brings the step's rows into `rows`. INVALID_ARGUMENT for rows that are not [T, H]
  // F32, or that the ring can't hold.
  absl::Status Load(const v1::PushStep& step, StepRows& rows);

  // The work that was enqueued is done: up to where the sender is to be told that its rows are
  // taken, where that is due.
  std::optional<uint64_t> Done();

 private:
  absl::Status LoadFromRing(const v1::PushStep& step, StepRows& rows);

  Backend& backend_;
  std::unique_ptr<Buffer> memory_;  // null: none is open
  uint64_t capacity_ = 0;
  uint64_t taken_ = 0;       // position
  uint64_t reported_ = 0;    // position
  bool lacks_room_ = false;  // the sender, by a step that came in the message
};

}  // namespace sluice
