// A connection as a stream of bytes: in plaintext, or over TLS (tls_stream.h). Belongs to one
// thread; nothing waits.
#pragma once

#include <cstddef>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/communicator/tcp/socket_address.h"

namespace sluice {

class TcpStream {
 public:
  virtual ~TcpStream() = default;

  // True once bytes may pass; false where the peer has to act first. UNAVAILABLE where the
  // connection is lost or the peer refused.
  virtual absl::StatusOr<bool> Handshake() = 0;

  // Each takes the two spans as if they were one, and returns the bytes moved: fewer than asked for
  // where the peer has to act first. UNAVAILABLE where the connection is lost or closed. What was
  // not written is offered again, the same bytes, before anything else.
  virtual absl::StatusOr<std::size_t> Write(absl::Span<const std::byte> first,
                                            absl::Span<const std::byte> second) = 0;
  virtual absl::StatusOr<std::size_t> Read(absl::Span<std::byte> first,
                                           absl::Span<std::byte> second) = 0;

  // What poll(2) has to wait for after one of the above could not do all: POLLIN or POLLOUT.
  virtual short awaited_events() const = 0;

  // For poll(2), and to be disconnected from any thread.
  virtual int fd() const = 0;
};

// The socket is non-blocking.
std::unique_ptr<TcpStream> MakePlainStream(Socket socket);

}  // namespace sluice
