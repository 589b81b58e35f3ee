#include "services/common/server.h"

#include <grpcpp/resource_quota.h>
#include <grpcpp/server_builder.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "services/common/grpc_runtime.h"
#include "services/common/health_service.h"
#include "services/common/progress_watch.h"
#include "services/common/refusal.h"
#include "services/security/local_address.h"

namespace sluice {
namespace {

// "127.0.0.1:0" with port 41234 becomes "127.0.0.1:41234".
std::string WithPort(absl::string_view address, int port) {
  return absl::StrCat(address.substr(0, address.rfind(':')), ":", port);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ServerOptions& options) {
  PrepareGrpc();
  grpc::ServerBuilder builder;
  for (grpc::Service* service : options.services) builder.RegisterService(service);
  // It is told before anybody can ask.
  auto health = std::make_unique<HealthService>();
  health->Set("", false);
  for (const std::string& name : options.names) health->Set(name, false);
  builder.RegisterService(health.get());
  std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> listeners;
  listeners.push_back(MakeRefusalListener());
  builder.experimental().SetInterceptorCreators(std::move(listeners));
  builder.SetMaxReceiveMessageSize(options.max_receive_bytes);
  builder.SetMaxSendMessageSize(-1);
  // With it, a second server on a port in use would silently take half of the first one's calls.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 5'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  // A peer whose host vanished, or whose process hangs, is found and its calls end.
  const int keepalive_ms = static_cast<int>(absl::ToInt64Milliseconds(options.keepalive));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, keepalive_ms);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, keepalive_ms);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, options.max_streams_per_connection);
  if (options.memory_quota_bytes > 0) {
    builder.SetResourceQuota(
        grpc::ResourceQuota(options.address).Resize(options.memory_quota_bytes));
  }

  std::string address = options.address;
  int port = 0;
  const bool in_process = absl::StartsWith(address, "inproc:");
  if (!in_process) {
    if (options.credentials == nullptr && !IsLocalAddress(address)) {
      return absl::FailedPreconditionError(
          absl::StrCat(address, " is neither a unix socket nor a loopback address: it needs TLS"));
    }
    builder.AddListeningPort(
        address,
        options.credentials != nullptr ? options.credentials : grpc::InsecureServerCredentials(),
        &port);
  }
  if (!options.owners_socket.empty()) {
    builder.AddListeningPort(options.owners_socket, grpc::InsecureServerCredentials());
  }
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  const bool is_unix = absl::StartsWith(address, "unix:");
  if (server == nullptr || (!in_process && !is_unix && port == 0)) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen on ", address,
                     is_unix ? ": its folder may not be written to, or something else is there"
                             : ": the address is in use or not one of this host"));
  }
  if (!in_process && !is_unix) address = WithPort(address, port);
  auto result = std::unique_ptr<Server>(
      new Server(std::move(address), options, std::move(health), std::move(server)));
  if (options.progress != nullptr) {
    options.progress->OnChanged([server = result.get()](bool hangs) { server->SetHanging(hangs); });
  }
  return result;
}

Server::Server(std::string address, const ServerOptions& options,
               std::unique_ptr<HealthService> health, std::unique_ptr<grpc::Server> server)
    : address_(std::move(address)),
      names_(options.names),
      progress_(options.progress),
      on_shutdown_(options.on_shutdown),
      health_(std::move(health)),
      server_(std::move(server)) {}

Server::~Server() {
  if (progress_ != nullptr) progress_->OnChanged(nullptr);
  Shutdown(absl::ZeroDuration());
}

absl::Status Server::ServeHealthOn(const std::vector<std::string>& addresses) {
  if (addresses.empty()) return absl::OkStatus();
  grpc::ServerBuilder builder;
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  std::vector<int> ports(addresses.size());
  for (size_t i = 0; i < addresses.size(); ++i) {
    builder.AddListeningPort(addresses[i], grpc::InsecureServerCredentials(), &ports[i]);
  }
  absl::MutexLock lock(&health_mutex_);
  probe_health_ = std::make_unique<HealthService>();
  TellHealth();
  builder.RegisterService(probe_health_.get());
  health_server_ = builder.BuildAndStart();
  if (health_server_ == nullptr) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen for health on ", absl::StrJoin(addresses, ",")));
  }
  return absl::OkStatus();
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
  probe_health_->Set("live", !hanging_);
  probe_health_->Set("accepts", ServesNow() || (holding_ && !hanging_ && !stopping_));
}

void Server::Shutdown(absl::Duration grace) {
  health_->EndWatches();
  if (on_shutdown_ != nullptr) on_shutdown_();
  server_->Shutdown(absl::ToChronoTime(absl::Now() + grace));
  server_->Wait();
  absl::MutexLock lock(&health_mutex_);
  if (health_server_ == nullptr) return;
  // Last: a probe should hear "not serving" for as long as there is something to wait for.
  probe_health_->EndWatches();
  health_server_->Shutdown(absl::ToChronoTime(absl::Now()));
  health_server_->Wait();
}

}  // namespace sluice
