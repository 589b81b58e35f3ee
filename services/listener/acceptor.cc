#include "services/listener/acceptor.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/tcp.h>
#include <malloc.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

constexpr uint64_t kWakeKey = 0;
constexpr uint64_t kFirstSocket = 1;
constexpr uint64_t kFirstConnection = 1000;
constexpr int kMostAcceptedAtOnce = 64;
// How soon a connection is looked at after something has come: the less is known of its peer the
// sooner.
constexpr absl::Duration kLookEarly = absl::Milliseconds(5);
constexpr absl::Duration kLookLate = absl::Milliseconds(50);
constexpr absl::Duration kLookAtLeast = absl::Seconds(1);
constexpr absl::Duration kSettles = absl::Seconds(10);
// Fewer bytes do not make streams worth counting.
constexpr uint64_t kCountEvery = 1024;
// How soon there may be room for one that waits to be served.
constexpr absl::Duration kBeginEvery = absl::Milliseconds(5);
constexpr absl::Duration kExcessEvery = absl::Milliseconds(20);
constexpr absl::Duration kRetry = absl::Milliseconds(100);
constexpr absl::Duration kSweepEvery = absl::Seconds(1);
constexpr size_t kSweepsPerRound = 30;
// Longer than gRPC gives a handshake (services/rpc/server.cc).
constexpr absl::Duration kHandshake = absl::Seconds(20);

absl::Duration SteadyNow() {
  return absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
}

int OpenReserve() { return open("/dev/null", O_RDONLY | O_CLOEXEC); }

// As gRPC names it.
std::string PeerName(const sockaddr_storage& address) {
  std::array<char, INET6_ADDRSTRLEN> host = {};
  if (address.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    inet_ntop(AF_INET, &v4.sin_addr, host.data(), host.size());
    return absl::StrCat("ipv4:", host.data(), ":", ntohs(v4.sin_port));
  }
  if (address.ss_family != AF_INET6) return "unix:";
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
  if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
    inet_ntop(AF_INET, v6.sin6_addr.s6_addr + 12, host.data(), host.size());
    return absl::StrCat("ipv4:", host.data(), ":", ntohs(v6.sin6_port));
  }
  inet_ntop(AF_INET6, &v6.sin6_addr, host.data(), host.size());
  const std::string scope = v6.sin6_scope_id == 0 ? "" : absl::StrCat("%25", v6.sin6_scope_id);
  return absl::StrCat("ipv6:%5B", host.data(), scope, "%5D:", ntohs(v6.sin6_port));
}

struct TcpState {
  bool is_closed = true;
  uint64_t bytes_received = 0;
};

TcpState StateOf(int fd) {
  tcp_info info = {};
  socklen_t size = sizeof(info);
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return {};
  constexpr uint8_t kClosed = 7;  // TCP_CLOSE of the kernel
  TcpState state = {.is_closed = info.tcpi_state == kClosed};
  // Older kernels do not say it.
  if (size >= offsetof(tcp_info, tcpi_bytes_received) + sizeof(info.tcpi_bytes_received)) {
    state.bytes_received = info.tcpi_bytes_received;
  }
  return state;
}

bool IsLackOfResources(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Acceptor>> Acceptor::Start(std::vector<Listener> listeners,
                                                          Options options) {
  const int epoll = epoll_create1(EPOLL_CLOEXEC);
  const int wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (epoll < 0 || wake < 0) {
    const absl::Status status = absl::ErrnoToStatus(errno, "cannot accept connections");
    if (epoll >= 0) close(epoll);
    if (wake >= 0) close(wake);
    return status;
  }
  return std::unique_ptr<Acceptor>(
      new Acceptor(std::move(listeners), std::move(options), epoll, wake));
}

Acceptor::Acceptor(std::vector<Listener> listeners, Options options, int epoll, int wake)
    : options_(std::move(options)),
      epoll_(epoll),
      wake_(wake),
      listeners_(std::move(listeners)),
      reserve_(OpenReserve()),
      retry_(absl::InfiniteDuration()),
      next_sweep_(SteadyNow() + kSweepEvery),
      next_key_(kFirstConnection) {
  epoll_event event = {.events = EPOLLIN, .data = {.u64 = kWakeKey}};
  epoll_ctl(epoll_, EPOLL_CTL_ADD, wake_, &event);
  for (Listener& listener : listeners_) {
    for (const ListeningSocket& socket : listener.listening.sockets) {
      event.data.u64 = kFirstSocket + sockets_.size();
      epoll_ctl(epoll_, EPOLL_CTL_ADD, socket.fd(), &event);
      sockets_.emplace_back(&listener, &socket);
    }
  }
  thread_ = std::thread([this] { Loop(); });
}

Acceptor::~Acceptor() {
  stops_ = true;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t woken = write(wake_, &one, sizeof(one));
  thread_.join();
  for (const auto& [key, connection] : connections_) {
    options_.guard->Remove(connection.id, connection.peer);
    if (connection.waiting_fd >= 0) close(connection.waiting_fd);
    close(connection.fd);
  }
  if (reserve_ >= 0) close(reserve_);
  close(wake_);
  close(epoll_);
}

void Acceptor::StopAccepting() {
  stops_accepting_ = true;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t woken = write(wake_, &one, sizeof(one));
  has_stopped_accepting_.WaitForNotification();
}

void Acceptor::CloseListeners() {
  sockets_.clear();
  for (Listener& listener : listeners_) listener.listening.sockets.clear();
  CloseWaiting();
  SetAccepting(true);  // it is not what it lacks that keeps it from accepting
}

absl::Duration Acceptor::NextWake() const {
  absl::Duration next = std::min(next_sweep_, retry_);
  if (options_.guard->num_waiting() > 0) next = std::min(next, next_begin_);
  if (!due_.empty()) next = std::min(next, due_.begin()->first);
  return next;
}

void Acceptor::Loop() {
  std::array<epoll_event, 256> events;
  while (!stops_) {
    const absl::Duration wait = std::max(NextWake() - SteadyNow(), absl::ZeroDuration());
    const int count = epoll_wait(epoll_, events.data(), static_cast<int>(events.size()),
                                 static_cast<int>(absl::ToInt64Milliseconds(wait)) + 1);
    for (int i = 0; i < count; ++i) OnEvent(events[i].data.u64, events[i].events);
    if (stops_accepting_ && !has_stopped_accepting_.HasBeenNotified()) {
      CloseListeners();
      has_stopped_accepting_.Notify();
    }
    LookAtDue();
    const absl::Duration now = SteadyNow();
    if (now >= next_begin_) BeginWaiting();
    if (now >= retry_) ListenAgain();
    if (now < next_sweep_) continue;
    next_sweep_ = now + kSweepEvery;
    options_.guard->ReportDue();
    Sweep();
  }
}

void Acceptor::OnEvent(Key key, uint32_t events) {
  if (key == kWakeKey) {
    uint64_t ignored = 0;
    [[maybe_unused]] const ssize_t got = read(wake_, &ignored, sizeof(ignored));
    return;
  }
  if (key < kFirstConnection) {
    if (key - kFirstSocket < sockets_.size()) Accept(key - kFirstSocket);
    return;
  }
  const auto found = connections_.find(key);
  if (found == connections_.end()) return;
  if ((events & (EPOLLHUP | EPOLLERR)) != 0) return Forget(found);
  LookIn(options_.guard->IsAdmitted(found->second.id) ? kLookLate : kLookEarly, key, found->second);
}

// ---- New connections ----

void Acceptor::Accept(size_t socket) {
  const auto [listener, listening] = sockets_[socket];
  for (int i = 0; i < kMostAcceptedAtOnce; ++i) {
    sockaddr_storage address = {};
    socklen_t size = sizeof(address);
    const int fd = accept4(listening->fd(), reinterpret_cast<sockaddr*>(&address), &size,
                           SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
      Take(*listener, fd, PeerName(address), listening->is_unix());
    } else if (IsLackOfResources(errno)) {
      if (!AcceptWithoutDescriptors(listening->fd())) return;
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return;
    }  // else the connection has gone before it was accepted
  }
}

bool Acceptor::AcceptWithoutDescriptors(int listening) {
  SetAccepting(false);
  options_.guard->Report("connection-refused", "", "no descriptor is free");
  int fd = -1;
  if (reserve_ >= 0) {
    close(reserve_);
    fd = accept4(listening, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) close(fd);
    reserve_ = OpenReserve();
  }
  if (fd >= 0) return true;
  // It would be woken for the same connection again and again.
  epoll_event event = {.events = 0, .data = {.u64 = 0}};
  for (size_t i = 0; i < sockets_.size(); ++i) {
    event.data.u64 = kFirstSocket + i;
    epoll_ctl(epoll_, EPOLL_CTL_MOD, sockets_[i].second->fd(), &event);
  }
  return false;
}

void Acceptor::SetAccepting(bool accepts) {
  if (!accepts) retry_ = SteadyNow() + kRetry;
  if (std::exchange(accepts_, accepts) == accepts) return;
  if (options_.on_changed != nullptr) options_.on_changed(accepts);
}

void Acceptor::ListenAgain() {
  retry_ = absl::InfiniteDuration();
  if (reserve_ < 0) reserve_ = OpenReserve();
  // A connection takes two.
  const std::array<int, 2> spare = {OpenReserve(), OpenReserve()};
  for (const int fd : spare) {
    if (fd >= 0) close(fd);
  }
  const bool accepts = reserve_ >= 0 && spare[0] >= 0 && spare[1] >= 0;
  SetAccepting(accepts);
  epoll_event event = {.events = EPOLLIN, .data = {.u64 = 0}};
  for (size_t i = 0; i < sockets_.size(); ++i) {
    event.data.u64 = kFirstSocket + i;
    epoll_ctl(epoll_, EPOLL_CTL_MOD, sockets_[i].second->fd(), &event);
  }
}

void Acceptor::Take(Listener& listener, int fd, const std::string& peer, bool is_unix) {
  ConnectionGuard& guard = *options_.guard;
  ConnectionTable::Arrival arrival;
  if (is_unix) {
    // Whoever may enter the socket's folder is one user: there is nobody to tell apart.
    if (connections_.size() >= 2 * static_cast<size_t>(guard.limits().connections)) {
      arrival.refusal = "there are too many connections";
    }
  } else {
    arrival = guard.Add(peer);
  }
  if (arrival.refusal != nullptr) {
    guard.Report("connection-refused", peer, arrival.refusal);
    close(fd);
    return;
  }
  if (const auto displaced = keys_.find(arrival.displaced); displaced != keys_.end()) {
    End(displaced->second, "it made room for another before it was authenticated",
        /*is_abuse=*/false);
  }
  const int second = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (second < 0) {
    SetAccepting(false);
    guard.Remove(arrival.id, peer);
    guard.Report("connection-refused", peer, "no descriptor is free");
    close(fd);
    return;
  }
  const Key key = next_key_++;
  Connection& connection = connections_[key];
  connection = {.id = arrival.id,
                .fd = second,
                .listener = &listener,
                .waiting_fd = fd,
                .peer = peer,
                .port = listener.listening.port,
                .accepted = SteadyNow(),
                .bytes_changed = SteadyNow()};
  if (arrival.id != 0) keys_[arrival.id] = key;
  Watch(key, connection, /*is_new=*/true);
  if (is_unix) return Begin(connection);
  BeginWaiting();
}

void Acceptor::BeginWaiting() {
  next_begin_ = SteadyNow() + kBeginEvery;
  while (true) {
    const ConnectionTable::Begin next = options_.guard->BeginNext();
    if (const auto found = keys_.find(next.displaced); found != keys_.end()) {
      End(found->second, "it made room for another before it was authenticated",
          /*is_abuse=*/false);
    } else if (const auto begun = keys_.find(next.id); begun != keys_.end()) {
      Connection& connection = connections_[begun->second];
      Begin(connection);
      LookIn(kLookEarly, begun->second, connection);
    } else {
      return;
    }
  }
}

void Acceptor::Begin(Connection& connection) {
  grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters parameters;
  parameters.listener_fd = -1;
  parameters.fd = std::exchange(connection.waiting_fd, -1);
  connection.accepted = SteadyNow();
  connection.listener->server->HandleNewConnection(&parameters);
}

void Acceptor::CloseWaiting() {
  for (auto it = connections_.begin(); it != connections_.end();) {
    const auto connection = it++;
    if (connection->second.waiting_fd >= 0) Forget(connection);
  }
}

// ---- Those that are there ----

bool Acceptor::IsTrusted(const Connection& connection) const {
  return connection.id == 0 ||
         (options_.trusts_admitted && options_.guard->IsAdmitted(connection.id));
}

void Acceptor::Watch(Key key, const Connection& connection, bool is_new) const {
  // Once: what comes while it is being looked at anyhow wakes nobody.
  epoll_event event = {.events = EPOLLIN | EPOLLONESHOT, .data = {.u64 = key}};
  if (connection.ends || IsTrusted(connection)) event.events = 0;  // its end is told all the same
  epoll_ctl(epoll_, is_new ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, connection.fd, &event);
}

void Acceptor::LookIn(absl::Duration delay, Key key, Connection& connection) {
  const absl::Duration at = SteadyNow() + delay;
  if (at >= connection.due) return;
  connection.due = at;
  due_.emplace(at, key);
}

void Acceptor::LookAtDue() {
  bool looked = false;
  while (!due_.empty() && due_.begin()->first <= SteadyNow()) {
    const auto [at, key] = *due_.begin();
    due_.erase(due_.begin());
    const auto found = connections_.find(key);
    if (found == connections_.end() || found->second.due != at) continue;
    Connection& connection = found->second;
    connection.due = absl::InfiniteDuration();
    if (connection.ends || IsTrusted(connection)) {
      Watch(key, connection, /*is_new=*/false);  // for its end alone
      continue;
    }
    looked = true;
    if (const char* cause = Look(connection)) {
      End(key, cause, /*is_abuse=*/true);
      continue;
    }
    // Epoll tells of nothing that gRPC was quicker to read.
    const bool admitted = options_.guard->IsAdmitted(connection.id);
    LookIn(std::clamp((SteadyNow() - connection.bytes_changed) / 2,
                      admitted ? kLookLate : kLookEarly, kLookAtLeast),
           key, connection);
    Watch(key, connection, /*is_new=*/false);
  }
  if (!looked || SteadyNow() < next_excess_) return;
  next_excess_ = SteadyNow() + kExcessEvery;
  EndExcess();
}

const char* Acceptor::Look(Connection& connection) {
  const absl::Duration now = SteadyNow();
  const uint64_t bytes = StateOf(connection.fd).bytes_received;
  if (std::exchange(connection.bytes, bytes) != bytes) connection.bytes_changed = now;
  if (const char* cause = options_.guard->OnReceived(connection.id, bytes)) return cause;
  // What has come may wait for gRPC to make streams of it, the longer the more there is to do.
  const bool settles =
      now - connection.bytes_changed < kSettles && !options_.guard->IsAdmitted(connection.id);
  if (!settles && bytes - connection.counted_at_bytes < kCountEvery) return nullptr;
  return CountStreams(connection);
}

const char* Acceptor::CountStreams(Connection& connection) {
  if (connection.waiting_fd >= 0) return nullptr;
  if (connection.socket == 0) {
    connection.socket = streams_.FindSocket(connection.peer, connection.port);
  }
  // Of those that are trusted nobody reports the messages.
  if (connection.socket == 0 || IsTrusted(connection)) return nullptr;
  connection.counted_at_bytes = connection.bytes;
  const auto streams = StreamCounts::Of(connection.socket);
  return streams.has_value() ? options_.guard->OnStreams(connection.id, *streams) : nullptr;
}

void Acceptor::EndExcess() {
  ConnectionTable::Excess excess = options_.guard->FindExcess();
  if (excess.id == 0) return;
  if (excess.is_of_streams) {
    // Those that have ended since are not known yet: their clients have sent nothing.
    for (auto& [key, connection] : connections_) {
      if (connection.socket != 0 && !connection.ends) CountStreams(connection);
    }
    excess = options_.guard->FindExcess();
  }
  if (const auto found = keys_.find(excess.id); found != keys_.end()) {
    End(found->second, excess.cause, /*is_abuse=*/true);
  }
}

void Acceptor::End(Key key, const char* cause, bool is_abuse) {
  Connection& connection = connections_[key];
  if (std::exchange(connection.ends, true)) return;
  has_closed_ = true;
  if (is_abuse) options_.guard->OnAbuse(connection.id);
  options_.guard->Report("connection-closed", connection.peer, cause);
  options_.guard->Remove(connection.id, connection.peer);
  keys_.erase(connection.id);
  shutdown(connection.fd, SHUT_RDWR);
  // gRPC would still read what has come.
  while (recv(connection.fd, nullptr, size_t{1} << 24, MSG_TRUNC | MSG_DONTWAIT) > 0) {
  }
  if (connection.waiting_fd >= 0) return Forget(connections_.find(key));
  Watch(key, connection, /*is_new=*/false);
}

void Acceptor::Forget(Connections::iterator found) {
  const Connection& connection = found->second;
  options_.guard->Remove(connection.id, connection.peer);
  keys_.erase(connection.id);
  streams_.Forget(connection.peer, connection.port);
  if (connection.waiting_fd >= 0) close(connection.waiting_fd);
  close(connection.fd);
  connections_.erase(found);
}

void Acceptor::Sweep() {
  // What they held lies about in the heap, between things that stay.
  if (std::exchange(has_closed_, false)) malloc_trim(0);
  const size_t count = connections_.size() / kSweepsPerRound + 1;
  auto next = connections_.upper_bound(swept_);
  for (size_t i = 0; i < count && next != connections_.end(); ++i) {
    const auto at = next++;
    auto& [key, connection] = *at;
    swept_ = key;
    if (connection.id == 0 || connection.ends) continue;
    if (SteadyNow() - connection.accepted < kHandshake) continue;
    const char* const cause = CountStreams(connection);
    if (StateOf(connection.fd).is_closed ||
        (connection.socket != 0 && !StreamCounts::Of(connection.socket).has_value())) {
      Forget(at);  // gRPC has closed its end
    } else if (connection.socket == 0 && !options_.guard->IsAdmitted(connection.id)) {
      End(key, "its handshake did not end", /*is_abuse=*/false);
    } else if (cause != nullptr && !IsTrusted(connection)) {
      End(key, cause, /*is_abuse=*/true);
    }
  }
  if (next == connections_.end()) swept_ = 0;
}

}  // namespace sluice
