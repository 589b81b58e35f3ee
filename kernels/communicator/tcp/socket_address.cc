#include "kernels/communicator/tcp/socket_address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace sluice {
namespace {

constexpr int kBacklog = 128;

// A peer's host that lost power answers nothing: its connection is given up after half a minute.
constexpr int kIdleSeconds = 15;
constexpr int kProbeSeconds = 5;
constexpr int kProbes = 3;
constexpr int kUnansweredMilliseconds = 30'000;

absl::Status ErrnoError(absl::string_view doing, const SocketAddress& address) {
  return absl::UnavailableError(absl::StrCat("cannot ", doing, " ", address.host(), ": ",
                                             std::generic_category().message(errno)));
}

void Set(const Socket& socket, int level, int option, int value) {
  setsockopt(socket.fd(), level, option, &value, sizeof(value));
}

// What fails here costs speed or takes longer to notice, no more.
void PrepareConnection(const Socket& socket) {
  Set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  Set(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  Set(socket, IPPROTO_TCP, TCP_KEEPIDLE, kIdleSeconds);
  Set(socket, IPPROTO_TCP, TCP_KEEPINTVL, kProbeSeconds);
  Set(socket, IPPROTO_TCP, TCP_KEEPCNT, kProbes);
  Set(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, kUnansweredMilliseconds);
}

bool IsLinkLocal(const sockaddr& address) {
  return IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr);
}

socklen_t SizeOf(int family) {
  return family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
}

}  // namespace

Socket::~Socket() {
  if (fd_ >= 0) close(fd_);
}

SocketAddress::SocketAddress(const sockaddr* address, socklen_t size) : size_(size) {
  std::memcpy(&storage_, address, size);
}

absl::StatusOr<SocketAddress> SocketAddress::Parse(const std::string& host, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (host.empty() ||
      getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", host, "' is not a numeric IPv4 or IPv6 address"));
  }
  const SocketAddress address(found->ai_addr, found->ai_addrlen);
  freeaddrinfo(found);
  return address;
}

absl::StatusOr<SocketAddress> SocketAddress::OfInterface(const std::string& interface) {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return absl::UnavailableError("cannot list the network interfaces");
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> guard(all, &freeifaddrs);
  for (const int family : {AF_INET, AF_INET6}) {
    for (const ifaddrs* entry = all; entry != nullptr; entry = entry->ifa_next) {
      if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != family) continue;
      if (interface != entry->ifa_name) continue;
      if (family == AF_INET6 && IsLinkLocal(*entry->ifa_addr)) continue;
      return SocketAddress(entry->ifa_addr, SizeOf(family));
    }
  }
  return absl::UnavailableError(
      absl::StrCat("no network interface '", interface, "' with an address on this host"));
}

bool SocketAddress::IsLoopback() const {
  if (storage_.ss_family == AF_INET) {
    return ntohl(reinterpret_cast<const sockaddr_in&>(storage_).sin_addr.s_addr) >> 24 == 127;
  }
  return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6&>(storage_).sin6_addr);
}

bool SocketAddress::IsWildcard() const {
  if (storage_.ss_family == AF_INET) {
    return reinterpret_cast<const sockaddr_in&>(storage_).sin_addr.s_addr == htonl(INADDR_ANY);
  }
  return IN6_IS_ADDR_UNSPECIFIED(&reinterpret_cast<const sockaddr_in6&>(storage_).sin6_addr);
}

std::string SocketAddress::host() const {
  char host[NI_MAXHOST] = "";
  getnameinfo(reinterpret_cast<const sockaddr*>(&storage_), size_, host, sizeof(host), nullptr, 0,
              NI_NUMERICHOST);
  return host;
}

std::uint16_t SocketAddress::port() const {
  // At the same place in both.
  return ntohs(reinterpret_cast<const sockaddr_in&>(storage_).sin_port);
}

std::string SocketAddress::ToString() const {
  return storage_.ss_family == AF_INET ? absl::StrCat(host(), ":", port())
                                       : absl::StrCat("[", host(), "]:", port());
}

absl::StatusOr<Socket> Listen(const SocketAddress& address) {
  Socket listener(
      socket(address.storage_.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const auto* const where = reinterpret_cast<const sockaddr*>(&address.storage_);
  if (listener.fd() < 0 || bind(listener.fd(), where, address.size_) != 0 ||
      listen(listener.fd(), kBacklog) != 0) {
    return ErrnoError("bind to", address);
  }
  return listener;
}

absl::StatusOr<Socket> Dial(const SocketAddress& address) {
  Socket dialled(socket(address.storage_.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (dialled.fd() < 0) return ErrnoError("connect to", address);
  PrepareConnection(dialled);
  const auto* const where = reinterpret_cast<const sockaddr*>(&address.storage_);
  if (connect(dialled.fd(), where, address.size_) != 0 && errno != EINPROGRESS) {
    return ErrnoError("connect to", address);
  }
  return dialled;
}

Socket Accept(const Socket& listener) {
  Socket accepted(accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (accepted.fd() >= 0) PrepareConnection(accepted);
  return accepted;
}

absl::StatusOr<SocketAddress> AddressOf(const Socket& socket) {
  sockaddr_storage storage{};
  socklen_t size = sizeof(storage);
  auto* const address = reinterpret_cast<sockaddr*>(&storage);
  if (getsockname(socket.fd(), address, &size) != 0) {
    return absl::UnavailableError("a socket has no address");
  }
  return SocketAddress(address, size);
}

absl::StatusOr<SocketAddress> PeerOf(const Socket& socket) {
  sockaddr_storage storage{};
  socklen_t size = sizeof(storage);
  auto* const address = reinterpret_cast<sockaddr*>(&storage);
  if (getpeername(socket.fd(), address, &size) != 0) {
    return absl::UnavailableError("the peer has gone already");
  }
  return SocketAddress(address, size);
}

}  // namespace sluice
