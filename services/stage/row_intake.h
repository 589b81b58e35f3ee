// Hidden rows from the stage before, for one session: joins them to plans by step, whichever way
// they come (stream, lane or the ring of rows of the stage before).
//
// Close() is thread-safe; the rest belongs to the thread that computes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/communicator/wiring_identity.h"
#include "services/rows/row_ring_reader.h"
#include "services/rows/step_rows.h"
#include "services/stage/activations.h"
#include "sluice/v1/stage.pb.h"

namespace sluice {

// Who opens a ring that the stage before offers.
enum class RingOpening {
  kOnLoad,    // Load(): this process alone reads it
  kByCaller,  // the caller, by TakeOffer() and OnOpened(): all ranks of the stage read it, or none
};

class RowIntake {
 public:
  // Borrows receiver and backend.
  RowIntake(ActivationsReceiver& receiver, const WiringIdentity& wiring, Backend& backend,
            RingOpening opening = RingOpening::kOnLoad);

  // Accepts the stream of the stage before.
  void Open();
  // Ends that stream and wakes RowsOf(). The first call decides.
  void Close(const absl::Status& reason);

  // Waits for the rows of a step, which arrive once and in any order of steps. What this was closed
  // with; errors of LaneInbox::Next(); ABORTED for rows of another epoch; INVALID_ARGUMENT where
  // rows of more than 4,096 other steps arrive first.
  absl::StatusOr<v1::PushStep> RowsOf(uint64_t step_id);

  // Enqueues what brings the step's rows into `rows`. Statuses of RowRingReader::Load.
  absl::Status Load(const v1::PushStep& step, StepRows& rows);
  // All work on the loaded rows is done: acknowledges them to the stage before, where that is due.
  void Done();

  // The ring offered since the last call, if any; then, once every rank has tried to open it,
  // whether all could. REQUIRES: RingOpening::kByCaller.
  std::optional<v1::RowRingOffer> TakeOffer() { return receiver_.TakeRingOffer(wiring_.epoch); }
  void OnOpened(const absl::Status& opened);
  RowRingReader& ring() { return ring_; }

 private:
  // Rows of steps whose plans have not been taken yet; an orchestrator has a few under way.
  static constexpr size_t kMostEarly = 4096;

  ActivationsReceiver& receiver_;
  const WiringIdentity wiring_;
  const RingOpening opening_;
  const RingUse ring_use_;
  RowRingReader ring_;
  const std::shared_ptr<ActivationsReceiver::Inbox> inbox_;  // shared with the receiver
  std::map<uint64_t, v1::PushStep> early_;                   // by step
};

// Logs that rows go by the stream, and why.
void NoteRingUnused(const absl::Status& why);

}  // namespace sluice
