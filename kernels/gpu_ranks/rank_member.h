// A rank's part in the exchanges of one epoch, whatever moves the bytes. Belongs to the backend's
// thread.
#pragma once

#include "absl/status/status.h"
#include "kernels/deadline.h"
#include "kernels/rank_exchange.h"

namespace sluice {

class RankMember : public RankExchange {
 public:
  // Exchanges enqueued from now on have until then.
  virtual void SetDeadline(Deadline deadline) = 0;

  // To be called every millisecond or so while the host waits for the stream, until that is empty:
  // a failure (a peer is gone, the session is over, the deadline has passed), from which on it sees
  // to it that the stream is not held up. Each is told once; OK while all is well, and afterwards.
  virtual absl::Status Look() = 0;
};

}  // namespace sluice
