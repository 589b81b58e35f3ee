#include "services/listener/listening_socket.h"

#include <linux/tcp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace sluice {
namespace {

constexpr int kType = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

absl::Status InUse(absl::string_view address) {
  return absl::UnavailableError(absl::StrCat("cannot listen on ", address,
                                             ": the address is in use or not one of this host"));
}

void SetOption(int fd, int level, int name, int value) {
  // What can't be set is an improvement that is missing.
  [[maybe_unused]] const int ignored = setsockopt(fd, level, name, &value, sizeof(value));
}

int PortOf(int fd) {
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&address);
  const auto* v4 = reinterpret_cast<const sockaddr_in*>(&address);
  return ntohs(address.ss_family == AF_INET6 ? v6->sin6_port : v4->sin_port);
}

// Nothing where it can't be bound.
std::optional<ListeningSocket> Bind(const sockaddr* address, socklen_t size, bool both_families) {
  ListeningSocket socket(::socket(address->sa_family, kType, 0), "");
  if (socket.fd() < 0) return std::nullopt;
  SetOption(socket.fd(), SOL_SOCKET, SO_REUSEADDR, 1);
  // Inherited by what is accepted.
  SetOption(socket.fd(), IPPROTO_TCP, TCP_NODELAY, 1);
  if (address->sa_family == AF_INET6) {
    SetOption(socket.fd(), IPPROTO_IPV6, IPV6_V6ONLY, both_families ? 0 : 1);
  }
  if (bind(socket.fd(), address, size) != 0 || listen(socket.fd(), SOMAXCONN) != 0) {
    return std::nullopt;
  }
  return socket;
}

absl::StatusOr<Listening> ListenEverywhere(absl::string_view address, int port) {
  Listening listening;
  sockaddr_in6 v6 = {};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(static_cast<uint16_t>(port));
  sockaddr_in v4 = {};
  v4.sin_family = AF_INET;
  v4.sin_port = v6.sin6_port;
  std::optional<ListeningSocket> both = Bind(reinterpret_cast<sockaddr*>(&v6), sizeof(v6), true);
  std::optional<ListeningSocket> one =
      both.has_value() ? std::nullopt : Bind(reinterpret_cast<sockaddr*>(&v4), sizeof(v4), false);
  if (!both.has_value() && !one.has_value()) return InUse(address);
  listening.sockets.push_back(std::move(both.has_value() ? *both : *one));
  listening.port = PortOf(listening.sockets.front().fd());
  return listening;
}

absl::StatusOr<Listening> ListenOnTcp(absl::string_view address) {
  absl::string_view target = address;
  if (absl::ConsumePrefix(&target, "dns:")) absl::ConsumePrefix(&target, "///");
  const size_t colon = target.rfind(':');
  if (colon == absl::string_view::npos) return InUse(address);
  std::string host(target.substr(0, colon));
  const std::string port(target.substr(colon + 1));
  if (absl::StartsWith(host, "[") && absl::EndsWith(host, "]"))
    host = host.substr(1, host.size() - 2);
  if (host == "0.0.0.0" || host == "::") return ListenEverywhere(address, std::atoi(port.c_str()));
  addrinfo hints = {};
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), port.c_str(), &hints, &found) != 0) return InUse(address);
  const AddressList list(found, &freeaddrinfo);
  Listening listening;
  for (addrinfo* each = list.get(); each != nullptr; each = each->ai_next) {
    if (listening.port != 0) {  // the same for all of them
      auto* v6 = reinterpret_cast<sockaddr_in6*>(each->ai_addr);
      auto* v4 = reinterpret_cast<sockaddr_in*>(each->ai_addr);
      (each->ai_family == AF_INET6 ? v6->sin6_port : v4->sin_port) =
          htons(static_cast<uint16_t>(listening.port));
    }
    std::optional<ListeningSocket> socket = Bind(each->ai_addr, each->ai_addrlen, false);
    if (!socket.has_value()) continue;
    if (listening.port == 0) listening.port = PortOf(socket->fd());
    listening.sockets.push_back(*std::move(socket));
  }
  if (listening.sockets.empty()) return InUse(address);
  return listening;
}

void RemoveSocketFile(const std::string& path) {
  struct stat file = {};
  if (stat(path.c_str(), &file) == 0 && S_ISSOCK(file.st_mode)) unlink(path.c_str());
}

absl::StatusOr<Listening> ListenOnUnix(const std::string& path) {
  const absl::Status failed = absl::UnavailableError(
      absl::StrCat("cannot listen on unix:", path,
                   ": its folder may not be written to, or something else is there"));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) return failed;
  std::memcpy(address.sun_path, path.data(), path.size());
  RemoveSocketFile(path);
  const int fd = socket(AF_UNIX, kType, 0);
  if (fd < 0) return failed;
  if (bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    close(fd);
    return failed;
  }
  Listening listening;
  listening.sockets.emplace_back(fd, path);
  if (listen(fd, SOMAXCONN) != 0) return failed;
  return listening;
}

}  // namespace

ListeningSocket::ListeningSocket(ListeningSocket&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), path_(std::move(other.path_)) {}

ListeningSocket::~ListeningSocket() {
  if (fd_ < 0) return;
  close(fd_);
  if (is_unix()) RemoveSocketFile(path_);
}

absl::StatusOr<Listening> Listen(absl::string_view address) {
  absl::string_view path = address;
  if (absl::ConsumePrefix(&path, "unix:")) return ListenOnUnix(std::string(path));
  return ListenOnTcp(address);
}

}  // namespace sluice
