// The steps of a stage, as each of its ranks gets them: rank 0 takes them from its port and
// broadcasts them, the other ranks receive them from rank 0. Belongs to the thread that computes.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "kernels/backend.h"
#include "kernels/communicator.h"
#include "services/common/steady_time.h"
#include "services/rows/row_ring_reader.h"
#include "services/stage/stage_port.h"

namespace sluice {

// A step whose rows are in rows() of the port.
struct ShardStep {
  v1::StageExecute plan;
  std::vector<uint64_t> computed_ns;  // PushStep.computed_ns
  SteadyTime began;                   // when all of it had arrived
};

class RankSteps {
 public:
  // Borrows port and backend, and the communicator of the stage. After its first part has arrived
  // the rest of a step takes at most `timeout`.
  RankSteps(StagePort& port, Backend& backend, Communicator& communicator, absl::Duration timeout)
      : port_(port), communicator_(communicator), timeout_(timeout), ring_(backend) {}

  // Waits for the next step. How the port was closed or the communicator ended; errors of
  // StagePort::Next, StageLinks::Load and step_broadcast.h.
  absl::StatusOr<ShardStep> Next() { return communicator_.rank() == 0 ? Lead() : Follow(); }

 private:
  absl::StatusOr<ShardStep> Lead();
  absl::StatusOr<ShardStep> Follow();
  // Loads the rows and sends the step to the other ranks; with it, once, the ring that all read.
  absl::Status LoadAndBroadcast(StageStep& step);

  StagePort& port_;
  Communicator& communicator_;
  const absl::Duration timeout_;
  RowRingReader ring_;  // of ranks above 0: that of the stage before
};

}  // namespace sluice
