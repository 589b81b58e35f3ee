#include "clients/cli/listen_port.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

struct FreeAddresses {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};

class Socket {
 public:
  explicit Socket(int family) : fd_(socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0)) {}
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  ~Socket() {
    if (fd_ >= 0) close(fd_);
  }
  int fd() const { return fd_; }

 private:
  const int fd_;
};

// The port of the address that `fd` is bound to.
int BoundPort(int fd) {
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6*>(&address)->sin6_port
                   : reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
}

// UNAVAILABLE where `host` is no address.
absl::StatusOr<std::unique_ptr<addrinfo, FreeAddresses>> Resolve(const std::string& host,
                                                                 int port) {
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(host.c_str(), absl::StrCat(port).c_str(), &hints, &found);
      error != 0) {
    return absl::UnavailableError(gai_strerror(error));
  }
  return std::unique_ptr<addrinfo, FreeAddresses>(found);
}

}  // namespace

absl::StatusOr<int> FindListenPort(const std::string& host, int port) {
  const std::string name = absl::StrCat(host, ":", port);
  const auto resolved = Resolve(host, port);
  if (!resolved.ok()) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen on ", name, ": ", resolved.status().message()));
  }
  const addrinfo* const address = resolved->get();
  const Socket socket(address->ai_family);
  // As gRPC does: connections of an earlier server that are still closing do not count.
  const int reuse = 1;
  setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof(reuse));
  if (bind(socket.fd(), address->ai_addr, address->ai_addrlen) != 0 ||
      listen(socket.fd(), 1) != 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen on ", name, ": ", std::strerror(errno)));
  }
  return BoundPort(socket.fd());
}

}  // namespace sluice
