// Numeric addresses of hosts, and the sockets at them. Functions are thread-safe.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace sluice {

// An open file of this process, closed with it.
class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Socket();

  int fd() const { return fd_; }

 private:
  int fd_;
};

class SocketAddress {
 public:
  // INVALID_ARGUMENT where `host` is no numeric IPv4 or IPv6 address.
  static absl::StatusOr<SocketAddress> Parse(const std::string& host, std::uint16_t port);
  // The first IPv4 address of an interface such as "eth0", else its first IPv6 address that is not
  // link-local. UNAVAILABLE where there is none.
  static absl::StatusOr<SocketAddress> OfInterface(const std::string& interface);

  bool IsLoopback() const;
  // 0.0.0.0 or ::, which no peer can connect to.
  bool IsWildcard() const;
  std::string host() const;
  std::uint16_t port() const;
  // "10.0.0.1:4711", "[::1]:4711"
  std::string ToString() const;

 private:
  friend absl::StatusOr<Socket> Listen(const SocketAddress& address);
  friend absl::StatusOr<Socket> Dial(const SocketAddress& address);
  friend absl::StatusOr<SocketAddress> AddressOf(const Socket& socket);
  friend absl::StatusOr<SocketAddress> PeerOf(const Socket& socket);

  SocketAddress(const sockaddr* address, socklen_t size);

  sockaddr_storage storage_{};
  socklen_t size_;
};

// All sockets are non-blocking and close with exec. UNAVAILABLE where the system refuses.

// Port 0 lets the kernel choose one.
absl::StatusOr<Socket> Listen(const SocketAddress& address);
// Begins to connect: the first writes find that it is not done yet, or has failed.
absl::StatusOr<Socket> Dial(const SocketAddress& address);
// The next connection; fd() is -1 where none waits.
Socket Accept(const Socket& listener);

absl::StatusOr<SocketAddress> AddressOf(const Socket& socket);
absl::StatusOr<SocketAddress> PeerOf(const Socket& socket);

}  // namespace sluice
