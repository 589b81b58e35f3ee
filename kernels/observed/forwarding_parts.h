// The parts of a forwarding backend: each hands its operations on to the same part of the backend
// within, as ForwardingBackend does with its own. Null where the backend within has no such part.
// Adapters and the attention of encoders are not handed on.
#pragma once

#include <memory>

#include "kernels/expert_ops.h"
#include "kernels/latent_ops.h"
#include "kernels/observed/forwarding_device.h"
#include "kernels/recurrent_ops.h"

namespace sluice {

// Borrows `device`, and calls it only while it enqueues.
std::unique_ptr<ExpertOps> ForwardExperts(ForwardingDevice& device);
std::unique_ptr<LatentOps> ForwardLatents(ForwardingDevice& device);
std::unique_ptr<RecurrentOps> ForwardRecurrence(ForwardingDevice& device);

}  // namespace sluice
