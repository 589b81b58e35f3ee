// Broadcast of a step from rank 0 of a stage to the other ranks: plan and hidden rows, through
// their communicator. Stateless.
#pragma once

#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "kernels/communicator.h"
#include "sluice/v1/stage.pb.h"

namespace sluice {

// On rank 0. Where the stage before has offered a ring for rows, the offer goes with the step, and
// all then call AgreeOnRing(). Statuses as Communicator::Broadcast.
absl::Status SendStep(Communicator& communicator, const v1::StageExecute& plan, v1::PushStep& rows,
                      const std::optional<v1::RowRingOffer>& ring, Deadline deadline);

// On the others: waits for the next step without limit, then as long as `timeout` for the rest of
// it. INTERNAL where rank 0 sends what is no step, or announces more than a gibibyte of it.
absl::Status ReceiveStep(Communicator& communicator, absl::Duration timeout, v1::StageExecute& plan,
                         v1::PushStep& rows, std::optional<v1::RowRingOffer>& ring);

// `opened`: whether this rank has opened the ring. Not OK behind the call, on every rank, unless
// all have: it is used by all or by none. Statuses as Communicator::AllGather.
absl::Status AgreeOnRing(Communicator& communicator, absl::Status& opened, Deadline deadline);

}  // namespace sluice
