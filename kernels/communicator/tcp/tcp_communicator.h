// A communicator between ranks on several hosts: a TCP connection for every two of them, over TLS
// unless the options say otherwise. Thread-safety as in communicator.h; the rank's thread moves all
// bytes itself. Not usable across fork().
//
// A peer that is gone is noticed by a rank that waits for it as soon as its connection closes (it
// failed, was aborted, was destroyed, or its process died); within half a minute where its host
// answers nothing; else by the deadline. A failed or aborted communicator closes its connections,
// so its peers fail soon as well, though without its reason. The connections stay open while a
// communicator is only idle. Calls of different sizes or kinds among the ranks are told apart.
//
// Each end checks the other before it reads a byte of its calls: over TLS the other's certificate,
// then the random token that this end has left in the store, then the wiring. The wiring's nonce is
// proven, not sent. A connection that proves less is dropped, and the group waits for the right
// one.
#pragma once

#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "absl/status/statusor.h"
#include "kernels/communicator.h"
#include "kernels/communicator/rendezvous_store.h"
#include "kernels/communicator/tcp/tls_stream.h"
#include "kernels/communicator/wiring_identity.h"
#include "kernels/deadline.h"

namespace sluice {

struct TcpOptions {
  // Names the group in the store, as "<group>/<rank>". Holds the epoch, so that it is never used
  // twice.
  std::string group;
  // The same on every rank, and on no rank of another group.
  WiringIdentity wiring;
  int rank = 0;
  int size = 1;
  // The numeric IPv4 or IPv6 address of this host that peers connect to, on a port that the kernel
  // chooses.
  std::string bind_address = "127.0.0.1";
  // A network interface, such as "eth0", whose address is taken instead where this is not empty.
  std::string interface;
  // The same on all ranks: all have certificates, or none. The files are read at every join, so
  // that new ones count from the next group on.
  std::optional<RankTls> tls;
  // Without `tls`: allows addresses other than loopback. Whoever is on the way between the ranks
  // can then read and alter what they exchange, so they must be on a network of their own.
  bool trusted_network = false;
};

//   INVALID_ARGUMENT    an option is out of range
//   ABORTED             a peer belongs to another wiring; the message says what differs
//   FAILED_PRECONDITION the address is not loopback, and neither is there TLS nor is the network
//                       trusted; a TLS file is wrong; a peer joined a group of another size, or one
//                       of TLS and plaintext where this rank has the other
//   ALREADY_EXISTS      this rank of the group has joined before
//   DEADLINE_EXCEEDED   a rank did not come in time; the message names it, and whom this one has
//                       turned away meanwhile
//   UNAVAILABLE         the address can't be bound, a connection failed, a lower rank is not who it
//                       should be, or the store failed
//   CANCELLED           told to stop
absl::StatusOr<std::unique_ptr<Communicator>> JoinTcp(const TcpOptions& options,
                                                      RendezvousStore& store, Deadline deadline,
                                                      const std::stop_token& stop = {});

}  // namespace sluice
