// The connections of one rank to all others, before any call. Private to the folder.
#pragma once

#include <memory>
#include <stop_token>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/communicator/rendezvous_store.h"
#include "kernels/communicator/tcp/tcp_communicator.h"
#include "kernels/communicator/tcp/tcp_stream.h"
#include "kernels/deadline.h"

namespace sluice {

struct Mesh {
  std::vector<std::unique_ptr<TcpStream>> streams;  // by rank; this rank's own is null
  int ranks_on_host = 1;                            // at this rank's address, itself included
};

// Listens, leaves this rank's address in `store`, waits for the others', dials the lower ranks and
// accepts the higher ones. `options` are valid. Statuses as of JoinTcp.
absl::StatusOr<Mesh> ConnectMesh(const TcpOptions& options, RendezvousStore& store,
                                 Deadline deadline, const std::stop_token& stop);

}  // namespace sluice
