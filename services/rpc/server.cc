#include "services/rpc/server.h"

#include <grpcpp/resource_quota.h>
#include <grpcpp/server_builder.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "services/listener/acceptor.h"
#include "services/listener/connection_guard.h"
#include "services/listener/limits.h"
#include "services/listener/listening_socket.h"
#include "services/process/log.h"
#include "services/rpc/grpc_runtime.h"
#include "services/rpc/health_service.h"
#include "services/rpc/refusal.h"
#include "services/security/local_address.h"

namespace sluice {
namespace {

using grpc::experimental::ServerInterceptorFactoryInterface;

// A peer that has sent no more than this has to be looked at before gRPC reads the next part: it
// reads up to 4 MiB at a time otherwise, which may be 100,000 streams.
constexpr int kMostBytesOfARead = 64 << 10;
constexpr absl::Duration kHandshakeTimeout = absl::Seconds(10);
// Of gRPC's reflection, whose every stream occupies a thread; further ones are refused.
constexpr int kReflectionThreads = 8;
// Probes come from few hosts, one at a time.
constexpr int kMostProbes = 64;

// "127.0.0.1:0" with port 41234 becomes "127.0.0.1:41234".
std::string WithPort(absl::string_view address, int port) {
  return absl::StrCat(address.substr(0, address.rfind(':')), ":", port);
}

// Tells a guard of the peers that reach a service: of those that the listener lets in, all may.
class AdmissionListener final : public ServerInterceptorFactoryInterface {
 public:
  explicit AdmissionListener(ConnectionGuard* guard) : guard_(guard) {}

  grpc::experimental::Interceptor* CreateServerInterceptor(
      grpc::experimental::ServerRpcInfo* info) override {
    // What gRPC itself answers, whoever asks, proves nothing.
    if (!absl::StartsWith(info->method(), "/grpc.")) {
      guard_->OnAdmitted(info->server_context()->peer());
    }
    return nullptr;
  }

 private:
  ConnectionGuard* const guard_;
};

void LogPeerEvent(const PeerEvent& event) {
  Log(LogLevel::kWarning, "listener", event.event,
      {{"host", event.host}, {"cause", event.cause}, {"count", event.count}});
}

// gRPC starts a thread for each processor first.
int MostThreads() {
  return static_cast<int>(std::thread::hardware_concurrency()) + kReflectionThreads;
}

void SetListenerArguments(grpc::ServerBuilder& builder) {
  // With it, a second server on a port in use would silently take half of the first one's calls.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
                             static_cast<int>(absl::ToInt64Milliseconds(kHandshakeTimeout)));
  // A small message can become a large one: no client of ours compresses.
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  builder.AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
}

// Health that is told before anybody can ask.
std::unique_ptr<HealthService> NotServing(const std::vector<std::string>& names) {
  auto health = std::make_unique<HealthService>();
  health->Set("", false);
  for (const std::string& name : names) health->Set(name, false);
  return health;
}

void SetInterceptors(const ServerOptions& options, ConnectionGuard* guard,
                     grpc::ServerBuilder& builder) {
  std::vector<std::unique_ptr<ServerInterceptorFactoryInterface>> interceptors;
  interceptors.push_back(MakeRefusalListener());
  if (!options.services_admit) interceptors.push_back(std::make_unique<AdmissionListener>(guard));
  builder.experimental().SetInterceptorCreators(std::move(interceptors));
}

// What messages, streams and all of them together may take.
void SetLimits(const ServerOptions& options, grpc::ServerBuilder& builder) {
  builder.SetMaxReceiveMessageSize(options.max_receive_bytes);
  builder.SetMaxSendMessageSize(-1);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, options.max_streams_per_connection);
  if (!options.trusts_admitted) {
    builder.AddChannelArgument(GRPC_ARG_TCP_MAX_READ_CHUNK_SIZE, kMostBytesOfARead);
  }
  grpc::ResourceQuota quota(options.address);
  quota.SetMaxThreads(MostThreads());
  if (options.memory_quota_bytes > 0) quota.Resize(options.memory_quota_bytes);
  builder.SetResourceQuota(quota);
}

// Of probes, which are answered at once.
void SetProbeThreads(grpc::ServerBuilder& builder) {
  grpc::ResourceQuota quota("probes");
  quota.SetMaxThreads(MostThreads());
  builder.SetResourceQuota(quota);
  builder.SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MIN_POLLERS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MAX_POLLERS, 2);
}

// A peer whose host vanished, or whose process hangs, is found and its calls end.
void SetKeepalive(absl::Duration keepalive, grpc::ServerBuilder& builder) {
  const int keepalive_ms = static_cast<int>(absl::ToInt64Milliseconds(keepalive));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, keepalive_ms);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, keepalive_ms);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 5'000);
}

// Sockets on `address`, whose connections `builder`'s server will take.
absl::StatusOr<Acceptor::Listener> ListenFor(grpc::ServerBuilder& builder,
                                             const std::string& address,
                                             std::shared_ptr<grpc::ServerCredentials> credentials) {
  absl::StatusOr<Listening> listening = Listen(address);
  if (!listening.ok()) return listening.status();
  using Type = grpc::ServerBuilder::experimental_type::ExternalConnectionType;
  return Acceptor::Listener{
      *std::move(listening),
      builder.experimental().AddExternalConnectionAcceptor(Type::FROM_FD, std::move(credentials))};
}

// Where the server of `options` is reached: its address first, unless that is in this process alone,
// then its owner's socket. Errors as Server::Start.
absl::StatusOr<std::vector<Acceptor::Listener>> ListenersOf(const ServerOptions& options,
                                                            grpc::ServerBuilder& builder) {
  std::vector<Acceptor::Listener> listeners;
  if (!absl::StartsWith(options.address, "inproc:")) {
    if (options.credentials == nullptr && !IsLocalAddress(options.address)) {
      return absl::FailedPreconditionError(absl::StrCat(
          options.address, " is neither a unix socket nor a loopback address: it needs TLS"));
    }
    absl::StatusOr<Acceptor::Listener> listener = ListenFor(
        builder, options.address,
        options.credentials != nullptr ? options.credentials : grpc::InsecureServerCredentials());
    if (!listener.ok()) return listener.status();
    listeners.push_back(*std::move(listener));
  }
  if (!options.owners_socket.empty()) {
    absl::StatusOr<Acceptor::Listener> listener =
        ListenFor(builder, options.owners_socket, grpc::InsecureServerCredentials());
    if (!listener.ok()) return listener.status();
    listeners.push_back(*std::move(listener));
  }
  return listeners;
}

// The address with the port that was bound.
std::string BoundAddress(const std::string& address,
                         const std::vector<Acceptor::Listener>& listeners) {
  if (listeners.empty() || listeners.front().listening.port == 0) return address;
  return WithPort(address, listeners.front().listening.port);
}

}  // namespace

std::unique_ptr<ConnectionGuard> MakeConnectionGuard(int most_streams) {
  return std::make_unique<ConnectionGuard>(
      ConnectionGuard::Options{.limits = LimitsOfThisProcess(),
                               .most_streams_per_connection = most_streams,
                               .on_event = LogPeerEvent});
}

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ServerOptions& options) {
  PrepareGrpc();
  grpc::ServerBuilder builder;
  for (grpc::Service* service : options.services) builder.RegisterService(service);
  std::unique_ptr<HealthService> health = NotServing(options.names);
  builder.RegisterService(health.get());
  std::unique_ptr<ConnectionGuard> own_guard;
  if (options.guard == nullptr) own_guard = MakeConnectionGuard(options.max_streams_per_connection);
  ConnectionGuard* const guard = options.guard != nullptr ? options.guard : own_guard.get();
  SetInterceptors(options, guard, builder);
  SetListenerArguments(builder);
  SetLimits(options, builder);
  SetKeepalive(options.keepalive, builder);
  absl::StatusOr<std::vector<Acceptor::Listener>> listeners = ListenersOf(options, builder);
  if (!listeners.ok()) return listeners.status();
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) {
    return absl::UnavailableError(absl::StrCat("gRPC does not serve on ", options.address));
  }
  auto result = std::unique_ptr<Server>(new Server(BoundAddress(options.address, *listeners),
                                                   options, std::move(own_guard), std::move(health),
                                                   std::move(server)));
  if (!listeners->empty()) {
    absl::StatusOr<std::unique_ptr<Acceptor>> acceptor = Acceptor::Start(
        *std::move(listeners), {.guard = guard,
                                .trusts_admitted = options.trusts_admitted,
                                .on_changed = [server = result.get()](bool accepts) {
                                  server->SetAccepting(server->cannot_accept_, accepts);
                                }});
    if (!acceptor.ok()) return acceptor.status();
    result->acceptor_ = *std::move(acceptor);
  }
  if (options.progress != nullptr) {
    options.progress->OnChanged([server = result.get()](bool hangs) { server->SetHanging(hangs); });
  }
  return result;
}

Server::Server(std::string address, const ServerOptions& options,
               std::unique_ptr<ConnectionGuard> guard, std::unique_ptr<HealthService> health,
               std::unique_ptr<grpc::Server> server)
    : address_(std::move(address)),
      names_(options.names),
      progress_(options.progress),
      on_shutdown_(options.on_shutdown),
      own_guard_(std::move(guard)),
      health_(std::move(health)),
      server_(std::move(server)) {}

Server::~Server() {
  if (progress_ != nullptr) progress_->OnChanged(nullptr);
  Shutdown(absl::ZeroDuration());
}

absl::Status Server::ServeHealthOn(const std::vector<std::string>& addresses) {
  if (addresses.empty()) return absl::OkStatus();
  grpc::ServerBuilder builder;
  SetListenerArguments(builder);
  std::vector<Acceptor::Listener> listeners;
  for (const std::string& address : addresses) {
    absl::StatusOr<Acceptor::Listener> listener =
        ListenFor(builder, address, grpc::InsecureServerCredentials());
    if (!listener.ok()) return listener.status();
    listeners.push_back(*std::move(listener));
  }
  {
    absl::MutexLock lock(&health_mutex_);
    probe_health_ = std::make_unique<HealthService>();
    TellHealth();
    probe_service_ = std::make_unique<ProbeService>(probe_health_.get());
    builder.RegisterService(probe_service_.get());
    SetProbeThreads(builder);
    health_server_ = builder.BuildAndStart();
    if (health_server_ == nullptr) {
      return absl::UnavailableError(
          absl::StrCat("cannot listen for health on ", absl::StrJoin(addresses, ",")));
    }
  }
  ListenerLimits limits = LimitsOfThisProcess();
  limits.connections = std::min(limits.connections, kMostProbes);
  limits.connections_per_host = limits.connections;
  probe_guard_ = std::make_unique<ConnectionGuard>(
      ConnectionGuard::Options{.limits = limits, .on_event = LogPeerEvent});
  absl::StatusOr<std::unique_ptr<Acceptor>> acceptor = Acceptor::Start(
      std::move(listeners), {.guard = probe_guard_.get(), .on_changed = [this](bool accepts) {
                               SetAccepting(cannot_accept_probes_, accepts);
                             }});
  if (!acceptor.ok()) return acceptor.status();
  probe_acceptor_ = *std::move(acceptor);
  return absl::OkStatus();
}

void Server::SetAccepting(std::unique_ptr<ProgressWatch::Work>& work, bool accepts) {
  if (progress_ != nullptr) {
    // What lasts turns health NOT_SERVING and ends the process: the next one has what this one
    // lacks.
    work = accepts ? nullptr
                   : std::make_unique<ProgressWatch::Work>(progress_, "accepting connections");
    return;
  }
  absl::MutexLock lock(&health_mutex_);
  accepting_ = accepts;
  TellHealth();
}

void Server::SetServing(bool serving) {
  absl::MutexLock lock(&health_mutex_);
  serving_ = serving;
  TellHealth();
}

void Server::SetHolding(bool holding) {
  absl::MutexLock lock(&health_mutex_);
  holding_ = holding;
  TellHealth();
}

void Server::SetHanging(bool hanging) {
  absl::MutexLock lock(&health_mutex_);
  hanging_ = hanging;
  TellHealth();
}

bool Server::serving() const {
  absl::MutexLock lock(&health_mutex_);
  return ServesNow();
}

void Server::StopServing() {
  absl::MutexLock lock(&health_mutex_);
  stopping_ = true;
  TellHealth();
}

void Server::TellHealth() {
  for (HealthService* health : {health_.get(), probe_health_.get()}) {
    if (health == nullptr) continue;
    health->Set("", ServesNow());
    for (const std::string& name : names_) health->Set(name, ServesNow());
  }
  if (probe_health_ == nullptr) return;
  probe_health_->Set("live", !hanging_ && accepting_);
  probe_health_->Set("accepts", ServesNow() || (holding_ && !hanging_ && accepting_ && !stopping_));
}

void Server::Shutdown(absl::Duration grace) {
  health_->EndWatches();
  if (on_shutdown_ != nullptr) on_shutdown_();
  if (acceptor_ != nullptr) acceptor_->StopAccepting();
  server_->Shutdown(absl::ToChronoTime(absl::Now() + grace));
  server_->Wait();
  if (probe_acceptor_ != nullptr) probe_acceptor_->StopAccepting();
  absl::MutexLock lock(&health_mutex_);
  if (health_server_ == nullptr) return;
  // Last: a probe should hear "not serving" for as long as there is something to wait for.
  probe_health_->EndWatches();
  health_server_->Shutdown(absl::ToChronoTime(absl::Now()));
  health_server_->Wait();
}

}  // namespace sluice
