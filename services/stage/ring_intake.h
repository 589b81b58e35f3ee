// Receiving end of the previous stage's row ring, for one session: the offer, and the
// acknowledgements. Belongs to the backend's thread.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "kernels/backend.h"
#include "services/rows/row_ring_reader.h"
#include "services/stage/activations.h"

namespace sluice {

class RingIntake {
 public:
  // Borrows both.
  RingIntake(ActivationsReceiver& receiver, const WiringIdentity& wiring, Backend& backend)
      : receiver_(receiver), wiring_(wiring), reader_(backend) {}

  // What ActivationsReceiver::Open() is to say.
  static RingUse UseOf(Backend& backend) {
    return backend.sharing() == nullptr ? RingUse::kNone : RingUse::kTaken;
  }

  // Opens the ring where one has been offered since the last call.
  void OpenIfOffered();

  // The same in parts, where others read it too: the offer, and then, once everybody has tried to
  // open it, whether all could.
  std::optional<v1::RowRingOffer> TakeOffer() { return receiver_.TakeRingOffer(wiring_.epoch); }
  void OnOpened(const absl::Status& opened);

  RowRingReader& reader() { return reader_; }

  // All work on the step's rows is done: tells the sender what is free, where that is due.
  void Done();

 private:
  ActivationsReceiver& receiver_;
  const WiringIdentity wiring_;
  RowRingReader reader_;
};

// Says in the log that rows go by the stream, and why.
void NoteRingUnused(const absl::Status& why);

}  // namespace sluice
