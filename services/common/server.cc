#include "services/common/server.h"

#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/server_builder.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "services/common/grpc_runtime.h"

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
  builder.SetMaxReceiveMessageSize(options.max_receive_bytes);
  builder.SetMaxSendMessageSize(-1);
  // With it, a second server on a port in use would silently take half of the first one's calls.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 5'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);

  std::string address = options.address;
  int port = 0;
  const bool in_process = absl::StartsWith(address, "inproc:");
  if (!in_process) {
    absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> credentials =
        ServerCredentialsFor(address, options.tls);
    if (!credentials.ok()) return credentials.status();
    builder.AddListeningPort(address, *credentials, &port);
  }
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  const bool is_unix = absl::StartsWith(address, "unix:");
  if (server == nullptr || (!in_process && !is_unix && port == 0)) {
    return absl::UnavailableError(absl::StrCat("cannot listen on ", address,
                                               ": the address is in use or not one of this host"));
  }
  if (!in_process && !is_unix) address = WithPort(address, port);
  auto result = std::unique_ptr<Server>(new Server(std::move(address), std::move(server)));
  result->SetServing(false);
  return result;
}

Server::Server(std::string address, std::unique_ptr<grpc::Server> server)
    : address_(std::move(address)), server_(std::move(server)) {}

Server::~Server() { Shutdown(absl::ZeroDuration()); }

void Server::SetServing(bool serving) {
  grpc::HealthCheckServiceInterface* health = server_->GetHealthCheckService();
  if (health != nullptr) health->SetServingStatus("", serving);
}

void Server::Shutdown(absl::Duration grace) {
  server_->Shutdown(absl::ToChronoTime(absl::Now() + grace));
  server_->Wait();
}

}  // namespace sluice
