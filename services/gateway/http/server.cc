#include "services/gateway/http/server.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <cerrno>
#include <chrono>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "services/gateway/http/tls_certificate.h"

namespace sluice::http {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using Error = boost::system::error_code;
using TlsStream = asio::ssl::stream<tcp::socket>;

class AsioLoop final : public Loop {
 public:
  AsioLoop() : context_(1), work_(asio::make_work_guard(context_)) {}
  ~AsioLoop() override { Stop(); }

  void Start() {
    thread_ = std::thread([this] { context_.run(); });
  }
  void Stop() {
    context_.stop();
    if (thread_.joinable()) thread_.join();
  }

  void Post(std::function<void()> task) override { asio::post(context_, std::move(task)); }
  void After(absl::Duration delay, std::function<void()> task) override {
    auto timer = std::make_shared<asio::steady_timer>(context_, absl::ToChronoNanoseconds(delay));
    timer->async_wait([timer, task = std::move(task)](Error error) {
      if (!error) task();
    });
  }

  asio::io_context& context() { return context_; }
  // The connections of this loop; touched on its thread.
  std::set<std::shared_ptr<Connection>>& connections() { return connections_; }

 private:
  asio::io_context context_;
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  std::set<std::shared_ptr<Connection>> connections_;
  std::thread thread_;
};

// What TLS writes it may have to write again, so that is left to the callback.
size_t DoTryWrite(TlsStream&, absl::string_view) { return 0; }
size_t DoTryWrite(tcp::socket& socket, absl::string_view bytes) {
  Error error;  // also where the buffer is full; what else it is a Write() finds out
  return socket.write_some(asio::buffer(bytes.data(), bytes.size()), error);
}

void DoHandshake(tcp::socket&, const std::function<void(bool)>& done) { done(true); }
void DoHandshake(TlsStream& stream, std::function<void(bool)> done) {
  stream.async_handshake(TlsStream::server,
                         [done = std::move(done)](Error error) { done(!error); });
}
tcp::socket& SocketOf(tcp::socket& socket) { return socket; }
tcp::socket& SocketOf(TlsStream& stream) { return stream.next_layer(); }

template <class Stream>
class AsioStream final : public ByteStream {
 public:
  template <class... Context>
  explicit AsioStream(tcp::socket socket, Context&... context)
      : stream_(std::move(socket), context...), timer_(SocketOf(stream_).get_executor()) {}

  void Handshake(std::function<void(bool)> done) override { DoHandshake(stream_, std::move(done)); }

  void Read(absl::Span<char> into, std::function<void(size_t)> done) override {
    stream_.async_read_some(
        asio::buffer(into.data(), into.size()),
        [done = std::move(done)](Error error, size_t num_bytes) { done(error ? 0 : num_bytes); });
  }

  size_t TryWrite(absl::string_view bytes) override { return DoTryWrite(stream_, bytes); }

  void Write(absl::string_view bytes, std::function<void(bool)> done) override {
    asio::async_write(stream_, asio::buffer(bytes.data(), bytes.size()),
                      [done = std::move(done)](Error error, size_t) { done(!error); });
  }

  void WatchGone(std::function<void()> gone) override {
    SocketOf(stream_).async_wait(tcp::socket::wait_error, [gone = std::move(gone)](Error error) {
      if (error != asio::error::operation_aborted) gone();
    });
  }

  void EndWrites() override {
    Error ignored;
    SocketOf(stream_).shutdown(tcp::socket::shutdown_send, ignored);
  }

  void SetTimer(absl::Duration delay, std::function<void()> on_time) override {
    timer_.cancel();
    // A timer that has run out already can't be cancelled any more, and may outlive this stream.
    *timer_is_wanted_ = false;
    if (delay == absl::InfiniteDuration()) return;
    timer_is_wanted_ = std::make_shared<bool>(true);
    timer_.expires_after(absl::ToChronoNanoseconds(delay));
    timer_.async_wait([wanted = timer_is_wanted_, on_time = std::move(on_time)](Error error) {
      if (!error && *wanted) on_time();
    });
  }

  void Close() override {
    Error ignored;
    SocketOf(stream_).shutdown(tcp::socket::shutdown_both, ignored);
    SocketOf(stream_).close(ignored);
  }

 private:
  Stream stream_;
  asio::steady_timer timer_;
  std::shared_ptr<bool> timer_is_wanted_ = std::make_shared<bool>(false);
};

absl::StatusOr<tcp::endpoint> EndpointOf(const std::string& address) {
  const size_t colon = address.rfind(':');
  int port = 0;
  if (colon == std::string::npos || !absl::SimpleAtoi(address.substr(colon + 1), &port) ||
      port < 0 || port > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", address, "\" is no HOST:PORT with a port from 0 to 65535"));
  }
  std::string host = address.substr(0, colon);
  if (absl::StartsWith(host, "[") && absl::EndsWith(host, "]"))
    host = host.substr(1, host.size() - 2);
  if (host.empty()) return tcp::endpoint(tcp::v6(), static_cast<uint16_t>(port));
  asio::io_context context;
  tcp::resolver resolver(context);
  Error error;
  const auto found = resolver.resolve(host, absl::StrCat(port), tcp::resolver::passive, error);
  if (error || found.empty()) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen on ", address, ": ", error.message()));
  }
  return found.begin()->endpoint();
}

}  // namespace

struct Server::Impl {
  explicit Impl(ServerOptions o)
      : options(std::move(o)),
        table({.max_connections = options.connections.limits.max_connections,
               .max_waiting_bytes = options.max_waiting_bytes}) {
    for (int i = 0; i < std::max(1, options.num_threads); ++i) {
      loops.push_back(std::make_unique<AsioLoop>());
    }
  }
  ~Impl() {
    for (const auto& loop : loops) loop->Stop();
    if (reserve >= 0) close(reserve);
    // Connections refer to their loops.
    for (const auto& loop : loops) {
      const auto connections = std::exchange(loop->connections(), {});
      for (const auto& connection : connections) connection->Close();
    }
  }

  absl::Status Listen();
  void Accept();
  void OnNoDescriptor();
  void Serve(AsioLoop& loop, tcp::socket socket);
  std::unique_ptr<ByteStream> StreamOver(tcp::socket socket);

  const ServerOptions options;
  std::string address;
  tcp::endpoint endpoint;
  std::unique_ptr<TlsCertificate> tls;  // where HTTPS is spoken
  std::vector<std::unique_ptr<AsioLoop>> loops;
  std::unique_ptr<tcp::acceptor> acceptor;  // touched on the first loop once that runs
  size_t next_loop = 0;                     // as the acceptor
  ConnectionTable table;
  int reserve = open("/dev/null", O_RDONLY | O_CLOEXEC);  // given up to refuse a connection
  std::atomic<int64_t> num_accepted{0};
  std::atomic<int> num_connections{0};
  std::atomic<bool> stopping{false};
};

absl::Status Server::Impl::Listen() {
  const absl::StatusOr<tcp::endpoint> wanted = EndpointOf(options.address);
  if (!wanted.ok()) return wanted.status();
  acceptor = std::make_unique<tcp::acceptor>(loops.front()->context());
  Error error;
  acceptor->open(wanted->protocol(), error);
  if (!error) acceptor->set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor->bind(*wanted, error);
  if (!error) acceptor->listen(asio::socket_base::max_listen_connections, error);
  if (error) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen on ", options.address, ": ", error.message()));
  }
  endpoint = acceptor->local_endpoint();
  address =
      absl::StrCat(options.address.substr(0, options.address.rfind(':')), ":", endpoint.port());
  return absl::OkStatus();
}

void Server::Impl::Accept() {
  AsioLoop& loop = *loops[next_loop++ % loops.size()];
  acceptor->async_accept(loop.context(), [this, &loop](Error error, tcp::socket socket) {
    if (stopping) return;
    if (error == asio::error::no_descriptors || error.value() == ENFILE) {
      return OnNoDescriptor();
    }
    if (error) {
      // A connection that its client has given up already, or no memory for one.
      return loops.front()->After(absl::Milliseconds(10), [this] { Accept(); });
    }
    ++num_accepted;
    loop.Post([this, &loop, socket = std::make_shared<tcp::socket>(std::move(socket))] {
      Serve(loop, std::move(*socket));
    });
    Accept();
  });
}

// Closes a connection that waits for a request, and the one that is to be accepted, with the
// descriptor that is kept for it: left in the queue it would be reported again at once, and its
// client would wait.
void Server::Impl::OnNoDescriptor() {
  table.EvictOne();
  if (reserve >= 0) close(std::exchange(reserve, -1));
  const int refused = accept4(acceptor->native_handle(), nullptr, nullptr, SOCK_CLOEXEC);
  if (refused >= 0) close(refused);
  reserve = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (refused >= 0) return Accept();
  loops.front()->After(absl::Milliseconds(10), [this] { Accept(); });
}

std::unique_ptr<ByteStream> Server::Impl::StreamOver(tcp::socket socket) {
  Error ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  socket.non_blocking(true, ignored);  // for TryWrite()
  if (tls == nullptr) return std::make_unique<AsioStream<tcp::socket>>(std::move(socket));
  return std::make_unique<AsioStream<TlsStream>>(std::move(socket), *tls->Current());
}

void Server::Impl::Serve(AsioLoop& loop, tcp::socket socket) {
  if (stopping) return;
  ++num_connections;
  Error ignored;
  std::string peer = PeerOf(socket.remote_endpoint(ignored).address().to_string());
  std::unique_ptr<ByteStream> stream = StreamOver(std::move(socket));
  auto holder = std::make_shared<std::shared_ptr<Connection>>();
  // Any thread may ask it to end.
  auto entry = table.Add(std::move(peer), [&loop, weak = std::weak_ptr(holder)] {
    loop.Post([weak] {
      const auto evicted = weak.lock();
      if (evicted != nullptr && *evicted != nullptr) std::shared_ptr(*evicted)->Close();
    });
  });
  const bool full = entry == nullptr;
  *holder = Connection::Start(options.connections, loop, std::move(stream), std::move(entry),
                              [this, &loop, holder] {
                                --num_connections;
                                loop.connections().erase(*holder);
                                holder->reset();
                              });
  if ((*holder)->closed()) return holder->reset();
  loop.connections().insert(*holder);
  if (full) (*holder)->Refuse(503, "too many connections; try again later");
}

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Server::~Server() = default;

absl::StatusOr<std::unique_ptr<Server>> Server::Start(ServerOptions options) {
  auto impl = std::make_unique<Impl>(std::move(options));
  if (!impl->options.tls_certificate.empty() || !impl->options.tls_key.empty()) {
    absl::StatusOr<std::unique_ptr<TlsCertificate>> tls =
        TlsCertificate::Load(impl->options.tls_certificate, impl->options.tls_key);
    if (!tls.ok()) return tls.status();
    impl->tls = *std::move(tls);
  }
  if (const absl::Status status = impl->Listen(); !status.ok()) return status;
  impl->Accept();
  for (const auto& loop : impl->loops) loop->Start();
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

const std::string& Server::address() const { return impl_->address; }
int Server::num_connections() const { return impl_->num_connections; }
int64_t Server::num_accepted() const { return impl_->num_accepted; }
int64_t Server::num_evicted() const { return impl_->table.num_evicted(); }

bool Server::AcceptsStrangers(absl::Duration patience) {
  const int64_t before = impl_->num_accepted;
  asio::io_context context;
  tcp::socket socket(context);
  tcp::endpoint endpoint = impl_->endpoint;
  if (endpoint.address().is_unspecified()) {
    endpoint.address(endpoint.address().is_v6()
                         ? asio::ip::address(asio::ip::address_v6::loopback())
                         : asio::ip::address_v4::loopback());
  }
  Error error;
  socket.open(endpoint.protocol(), error);
  // A connection that is not made at once waits in a full queue.
  if (!error) socket.non_blocking(true, error);
  if (!error) socket.connect(endpoint, error);
  if (error && error != asio::error::in_progress) return false;
  using Clock = std::chrono::steady_clock;
  const Clock::time_point end = Clock::now() + absl::ToChronoNanoseconds(patience);
  while (impl_->num_accepted == before && Clock::now() < end) absl::SleepFor(absl::Milliseconds(2));
  return impl_->num_accepted != before;
}

bool Server::IsResponsive(absl::Duration patience) {
  const auto num_left = std::make_shared<std::atomic<size_t>>(impl_->loops.size());
  for (const auto& loop : impl_->loops) loop->Post([num_left] { --*num_left; });
  using Clock = std::chrono::steady_clock;
  const Clock::time_point end = Clock::now() + absl::ToChronoNanoseconds(patience);
  while (*num_left > 0 && Clock::now() < end) absl::SleepFor(absl::Milliseconds(5));
  return *num_left == 0;
}
Loop& Server::loop() { return *impl_->loops.front(); }

void Server::Shutdown(absl::Duration grace) {
  impl_->stopping = true;
  impl_->loops.front()->Post([impl = impl_.get()] {
    Error ignored;
    impl->acceptor->close(ignored);
  });
  for (const auto& loop : impl_->loops) {
    loop->Post([loop = loop.get()] {
      const auto connections = loop->connections();  // Drain() may end some at once
      for (const auto& connection : connections) connection->Drain();
    });
  }
  using Clock = std::chrono::steady_clock;
  const Clock::time_point end = Clock::now() + absl::ToChronoNanoseconds(grace);
  while (impl_->num_connections > 0 && Clock::now() < end) absl::SleepFor(absl::Milliseconds(5));
  for (const auto& loop : impl_->loops) {
    absl::Notification done;
    loop->Post([&loop, &done] {
      const auto connections = loop->connections();
      for (const auto& connection : connections) connection->Close();
      done.Notify();
    });
    done.WaitForNotification();
  }
}

}  // namespace sluice::http
