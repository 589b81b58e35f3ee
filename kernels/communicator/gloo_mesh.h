// The connections of one rank to all others through Gloo, before any collective. Private to the
// communicator folder: includes Gloo's headers.
#pragma once

#include <gloo/transport/context.h>
#include <gloo/transport/device.h>

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "kernels/communicator/gloo_communicator.h"
#include "kernels/communicator/rendezvous_store.h"

namespace sluice {

struct GlooMesh {
  // The device runs the I/O thread and outlives the context, which holds one pair per peer.
  std::shared_ptr<gloo::transport::Device> device;
  std::shared_ptr<gloo::transport::Context> context;
};

// `options` are valid. Statuses as of JoinGloo.
absl::StatusOr<GlooMesh> ConnectGlooMesh(const GlooOptions& options, RendezvousStore& store,
                                         Deadline deadline);

}  // namespace sluice
