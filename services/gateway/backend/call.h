// One Generate call to an orchestrator, as a generation sees it: a gRPC call of its own, or its
// part of a session. Belongs to the caller's loop: called and calling back there alone.
#pragma once

#include "absl/status/status.h"
#include "sluice/v1/generation.pb.h"

namespace sluice::gateway {

// Receives the events of a call; once it is gone they are dropped.
class CallListener {
 public:
  virtual ~CallListener() = default;
  virtual void OnEvent(const v1::GenerateResponse& event) = 0;
  // The call is over; the last call. UNAVAILABLE or CANCELLED where the server was lost or ends.
  virtual void OnEnd(const absl::Status& status) = 0;
};

class Call {
 public:
  virtual ~Call() = default;
  // While it is not read, what comes is held back up to what is on its way already.
  virtual void SetReading(bool reading) = 0;
  // Does nothing to a call that is over.
  virtual void Cancel() = 0;
};

}  // namespace sluice::gateway
