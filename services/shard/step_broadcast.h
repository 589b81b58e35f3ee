// How rank 0 of a stage hands a step to the other ranks: plan and hidden rows, through their
// communicator. Stateless.
#pragma once

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "kernels/communicator/communicator.h"
#include "sluice/v1/activations.pb.h"
#include "sluice/v1/shard.pb.h"

namespace sluice {

// On rank 0. Statuses as Communicator::Broadcast.
absl::Status SendStep(Communicator& communicator, const v1::ShardExecute& plan, v1::PushStep& rows,
                      Deadline deadline);

// On the others: waits for the next step without limit, then as long as `timeout` for the rest of
// it. INTERNAL where rank 0 sends what is no step, or announces more than a gibibyte of it.
absl::Status ReceiveStep(Communicator& communicator, absl::Duration timeout, v1::ShardExecute& plan,
                         v1::PushStep& rows);

}  // namespace sluice
