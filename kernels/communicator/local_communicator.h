// The communicator of a stage without tensor parallelism: one rank that has nobody to talk to.
// Thread-safety as in communicator.h.
#pragma once

#include <memory>

#include "kernels/communicator.h"
#include "kernels/communicator/wiring_identity.h"

namespace sluice {

// Rank 0 of 1. AllGather and AllToAll copy, Broadcast does nothing; no call waits, so no deadline
// ever passes.
std::unique_ptr<Communicator> MakeLocalCommunicator(const WiringIdentity& wiring = {});

}  // namespace sluice
