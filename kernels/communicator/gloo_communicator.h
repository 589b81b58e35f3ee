// A communicator between ranks on several hosts, over TCP (Gloo). Thread-safety as in
// communicator.h; each one runs one I/O thread of its own. Not usable across fork().
//
// A peer that is gone is noticed as soon as its connection closes (it failed, was aborted, was
// destroyed, or its process died), else by the deadline: a host that loses power sends nothing.
// A failed or aborted communicator closes its connections, so its peers fail soon as well, though
// without its reason. The connections stay open while a communicator is only idle.
//
// Nothing is encrypted or authenticated, hence loopback unless the options say that the network
// is trusted. Calls of different sizes or kinds among the ranks are not told apart (those of the
// shared-memory communicator are).
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "kernels/communicator/communicator.h"
#include "kernels/communicator/rendezvous_store.h"

namespace sluice {

struct GlooOptions {
  // Names the group in the store, as "<group>/<rank>". Holds the epoch, so that it is never used
  // twice.
  std::string group;
  int rank = 0;
  int size = 1;
  // The numeric IPv4 or IPv6 address that peers connect to, on ports the kernel chooses.
  std::string bind_address = "127.0.0.1";
  // A network interface, such as "eth0", whose address is taken instead where this is not empty.
  std::string interface;
  // Allows addresses other than loopback. Whoever can reach the ports can read and alter what the
  // ranks exchange, so they must be on a network of their own or inside an encrypted tunnel.
  bool trusted_network = false;
};

// Leaves this rank's addresses in `store`, waits for the others' and connects to all of them.
//   INVALID_ARGUMENT    an option is out of range
//   FAILED_PRECONDITION the address is not loopback and the network not trusted, or a peer joined a
//                       group of another size
//   ALREADY_EXISTS      this rank of the group has joined before
//   DEADLINE_EXCEEDED   a rank did not come in time; the message names it. A peer that dies between
//                       the rendezvous and its connections can delay this by up to 5 s more.
//   UNAVAILABLE         the address can't be bound, a connection failed, or the store did
absl::StatusOr<std::unique_ptr<Communicator>> JoinGloo(const GlooOptions& options,
                                                       RendezvousStore& store, Deadline deadline);

}  // namespace sluice
