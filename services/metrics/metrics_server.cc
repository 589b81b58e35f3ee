#include "services/metrics/metrics_server.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <prometheus/text_serializer.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <list>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMostConnections = 64;  // the oldest gives way to one more
constexpr size_t kMostRequestBytes = 16 << 10;
constexpr auto kTime = std::chrono::seconds(5);  // of a connection, from its accept to its end

// A file descriptor that is closed with it; -1: none.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

Descriptor Reserve() { return Descriptor(open("/dev/null", O_RDONLY | O_CLOEXEC)); }

std::string Response(absl::string_view status, absl::string_view headers, absl::string_view body,
                     bool with_body) {
  return absl::StrCat("HTTP/1.1 ", status, "\r\n", headers, "content-length: ", body.size(),
                      "\r\nconnection: close\r\n\r\n", with_body ? body : "");
}

absl::StatusOr<Descriptor> Listen(const std::string& address) {
  const size_t colon = address.rfind(':');
  std::string host = address.substr(0, colon);
  if (colon == std::string::npos || host.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot serve metrics on ", address, ": write HOST:PORT"));
  }
  if (absl::StartsWith(host, "[") && absl::EndsWith(host, "]")) {
    host = host.substr(1, host.size() - 2);
  }
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int failure = getaddrinfo(host.c_str(), address.substr(colon + 1).c_str(), &hints, &found);
  if (failure != 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot serve metrics on ", address, ": ", gai_strerror(failure)));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owned(found, freeaddrinfo);
  Descriptor listener(
      socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, found->ai_protocol));
  const int on = 1;
  setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (listener.get() < 0 || bind(listener.get(), found->ai_addr, found->ai_addrlen) != 0 ||
      listen(listener.get(), SOMAXCONN) != 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot serve metrics on ", address, ": ", std::strerror(errno)));
  }
  return listener;
}

}  // namespace

class MetricsServer::Loop {
 public:
  Loop(Descriptor listener, std::vector<std::shared_ptr<prometheus::Collectable>> sources)
      : listener_(std::move(listener)),
        stop_(eventfd(0, EFD_CLOEXEC)),
        sources_(std::move(sources)),
        thread_([this] { Run(); }) {}

  ~Loop() {
    const uint64_t one = 1;
    (void)!write(stop_.get(), &one, sizeof(one));
    thread_.join();
  }

  int port() const {
    sockaddr_storage address = {};
    socklen_t size = sizeof(address);
    getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size);
    const bool is_ipv6 = address.ss_family == AF_INET6;
    return ntohs(is_ipv6 ? reinterpret_cast<sockaddr_in6*>(&address)->sin6_port
                         : reinterpret_cast<sockaddr_in*>(&address)->sin_port);
  }

 private:
  struct Connection {
    Descriptor socket;
    Clock::time_point end;
    std::string request = {};
    std::string response = {};  // once the request is complete
    size_t num_sent = 0;
  };

  void Run() {
    std::vector<pollfd> fds;
    while (true) {
      fds.assign({{stop_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}});
      for (const Connection& connection : connections_) {
        const auto events = static_cast<short>(connection.response.empty() ? POLLIN : POLLOUT);
        fds.push_back({connection.socket.get(), events, 0});
      }
      if (poll(fds.data(), fds.size(), Timeout()) < 0 && errno != EINTR) return;
      if (fds[0].revents != 0) return;
      ServeConnections(fds);
      if (fds[1].revents != 0) Accept();
    }
  }

  // Milliseconds until the oldest connection has had its time.
  int Timeout() const {
    if (connections_.empty()) return -1;
    const auto left = connections_.front().end - Clock::now();
    return std::max<int>(
        0, static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(left).count()));
  }

  void ServeConnections(const std::vector<pollfd>& fds) {
    const Clock::time_point now = Clock::now();
    size_t i = 2;
    for (auto connection = connections_.begin(); connection != connections_.end(); ++i) {
      const bool goes_on = now < connection->end && (fds[i].revents == 0 || Serve(*connection));
      connection = goes_on ? std::next(connection) : connections_.erase(connection);
    }
  }

  void Accept() {
    while (true) {
      Descriptor socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (socket.get() < 0 && (errno == EMFILE || errno == ENFILE)) return RefuseOne();
      if (socket.get() < 0) return;
      if (connections_.size() == kMostConnections) connections_.pop_front();
      connections_.push_back({.socket = std::move(socket), .end = Clock::now() + kTime});
    }
  }

  // There is no descriptor: one that waits gives way to the next, and this client is told by the end
  // of its connection; left in the queue it would keep the loop busy.
  void RefuseOne() {
    if (!connections_.empty()) connections_.pop_front();
    reserve_ = Descriptor();
    { const Descriptor refused(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)); }
    reserve_ = Reserve();
    if (reserve_.get() < 0) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }

  // False where the connection is over.
  bool Serve(Connection& connection) {
    if (!connection.response.empty()) return Send(connection);
    char buffer[4096];
    const ssize_t count = recv(connection.socket.get(), buffer, sizeof(buffer), 0);
    if (count < 0) return errno == EAGAIN || errno == EINTR;
    connection.request.append(buffer, static_cast<size_t>(count));
    if (absl::StrContains(connection.request, "\r\n\r\n")) {
      connection.response = Answer(connection.request);
      return Send(connection);
    }
    return count > 0 && connection.request.size() <= kMostRequestBytes;
  }

  static bool Send(Connection& connection) {
    const absl::string_view rest =
        absl::string_view(connection.response).substr(connection.num_sent);
    const ssize_t count = send(connection.socket.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
    if (count < 0) return errno == EAGAIN || errno == EINTR;
    connection.num_sent += static_cast<size_t>(count);
    return connection.num_sent < connection.response.size();
  }

  std::string Answer(absl::string_view request) const {
    const bool is_head = absl::StartsWith(request, "HEAD ");
    if (!is_head && !absl::StartsWith(request, "GET ")) {
      return Response("405 Method Not Allowed", "allow: GET\r\n", "", true);
    }
    const absl::string_view target = request.substr(request.find(' ') + 1);
    const absl::string_view path = target.substr(0, target.find_first_of("? \r\n"));
    if (path != "/metrics") return Response("404 Not Found", "", "", true);
    std::vector<prometheus::MetricFamily> families;
    for (const auto& source : sources_) {
      for (prometheus::MetricFamily& family : source->Collect()) {
        families.push_back(std::move(family));
      }
    }
    return Response("200 OK", "content-type: text/plain; version=0.0.4; charset=utf-8\r\n",
                    prometheus::TextSerializer().Serialize(families), !is_head);
  }

  const Descriptor listener_;
  const Descriptor stop_;
  const std::vector<std::shared_ptr<prometheus::Collectable>> sources_;
  std::list<Connection> connections_;  // the thread's, the oldest first
  Descriptor reserve_ = Reserve();     // given up to refuse a connection
  std::thread thread_;                 // last: it uses what is above
};

MetricsServer::MetricsServer(std::unique_ptr<Loop> loop) : loop_(std::move(loop)) {}

MetricsServer::~MetricsServer() = default;

absl::StatusOr<std::unique_ptr<MetricsServer>> MetricsServer::Start(
    const std::string& address, std::vector<std::shared_ptr<prometheus::Collectable>> sources) {
  absl::StatusOr<Descriptor> listener = Listen(address);
  if (!listener.ok()) return listener.status();
  return std::unique_ptr<MetricsServer>(
      new MetricsServer(std::make_unique<Loop>(*std::move(listener), std::move(sources))));
}

int MetricsServer::port() const { return loop_->port(); }

}  // namespace sluice
