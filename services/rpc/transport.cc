#include "services/rpc/transport.h"

#include <arpa/inet.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/support/channel_arguments.h>
#include <netdb.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "services/common/address.h"
#include "services/rpc/grpc_runtime.h"
#include "services/rpc/resolve.h"

namespace sluice {
namespace {

constexpr char kInProcess[] = "inproc:";

grpc::ChannelArguments ChannelArgumentsForPeers() {
  grpc::ChannelArguments arguments;
  // A prefill step's rows are larger than gRPC's default of 4 MB.
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetMaxSendMessageSize(-1);
  // Notice a peer that vanished without closing its connection.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 10'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5'000);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // Calls that change nothing may be made again when the tokenizer is lost under them, or another
  // model's has taken its place (expected_tokenizer.h).
  arguments.SetServiceConfigJSON(R"({"methodConfig": [{
    "name": [{"service": "sluice.v1.TokenizerService", "method": "Tokenize"},
             {"service": "sluice.v1.TokenizerService", "method": "Detokenize"},
             {"service": "sluice.v1.TokenizerService", "method": "ApplyChatTemplate"}],
    "retryPolicy": {"maxAttempts": 5, "initialBackoff": "0.1s", "maxBackoff": "1s", "backoffMultiplier": 2,
                    "retryableStatusCodes": ["UNAVAILABLE", "ABORTED"]}}]})");
  // Channels to one address share no connection, nor the time that is to pass after an attempt that
  // failed (0.1 s at least): who dials again finds a process that was restarted the moment it
  // listens.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  // A process that was restarted is back within tens of milliseconds.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 2'000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 300);
  // In a cluster it comes back under the same name at another address. A channel that has failed
  // waits for its name to be resolved again, numbers too, and that happens every 30 s otherwise.
  arguments.SetInt(GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS, 200);
  return arguments;
}

// As gRPC writes it, such as "ipv6:[::1]:80"; empty where it is of neither family.
std::string AddressText(const sockaddr& address, absl::string_view port) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address.sa_family == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in&>(address).sin_addr, text, sizeof text);
    return absl::StrCat("ipv4:", text, ":", port);
  }
  if (address.sa_family != AF_INET6) return "";
  inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr, text, sizeof text);
  return absl::StrCat("ipv6:[", text, "]:", port);
}

// The name in "[dns:[///]]HOST:PORT".
absl::string_view WithoutScheme(absl::string_view address) {
  if (absl::ConsumePrefix(&address, "dns:")) absl::ConsumePrefix(&address, "///");
  return address;
}

}  // namespace

std::vector<std::string> ResolvePublic(absl::string_view address) {
  address = WithoutScheme(address);
  const size_t colon = address.rfind(':');
  if (colon == absl::string_view::npos || IsOwnersAddress(address)) return {};
  const std::string host(address.substr(0, colon));
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) return {};
  std::vector<std::string> addresses;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    const std::string text = AddressText(*one->ai_addr, address.substr(colon + 1));
    if (!text.empty()) addresses.push_back(text);
  }
  freeaddrinfo(found);
  std::sort(addresses.begin(), addresses.end());
  addresses.erase(std::unique(addresses.begin(), addresses.end()), addresses.end());
  return addresses;
}

absl::StatusOr<std::shared_ptr<grpc::Channel>> DialResolved(const std::string& resolved,
                                                            absl::string_view name,
                                                            const ClientSecurity& security) {
  name = WithoutScheme(name);
  PrepareGrpc();
  absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> credentials =
      ClientChannelCredentials(name, security);
  if (!credentials.ok()) return credentials.status();
  grpc::ChannelArguments arguments = ChannelArgumentsForPeers();
  // The certificate is to name the host, not its address.
  arguments.SetString(GRPC_ARG_DEFAULT_AUTHORITY, std::string(name));
  return grpc::CreateCustomChannel(resolved, *credentials, arguments);
}

absl::StatusOr<std::vector<std::shared_ptr<grpc::Channel>>> DialPublicEach(
    absl::string_view address, const ClientSecurity& security) {
  const std::vector<std::string> resolved = ResolvePublic(address);
  std::vector<std::shared_ptr<grpc::Channel>> channels;
  for (const std::string& one : resolved) {
    absl::StatusOr<std::shared_ptr<grpc::Channel>> channel = DialResolved(one, address, security);
    if (!channel.ok()) return channel.status();
    channels.push_back(*std::move(channel));
  }
  if (!channels.empty()) return channels;
  absl::StatusOr<std::shared_ptr<grpc::Channel>> channel = DialPublic(address, security);
  if (!channel.ok()) return channel.status();
  channels.push_back(*std::move(channel));
  return channels;
}

absl::StatusOr<std::shared_ptr<grpc::Channel>> DialPublic(absl::string_view address,
                                                          const ClientSecurity& security) {
  if (absl::Status valid = CheckAddress(address); !valid.ok()) return valid;
  PrepareGrpc();
  absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> credentials =
      ClientChannelCredentials(address, security);
  if (!credentials.ok()) return credentials.status();
  grpc::ChannelArguments arguments = ChannelArgumentsForPeers();
  // A name may stand for several orchestrators: each takes its turn.
  arguments.SetLoadBalancingPolicyName("round_robin");
  return grpc::CreateCustomChannel(std::string(address), *credentials, arguments);
}

void Dialer::RegisterInProcess(absl::string_view name, grpc::Server* server) {
  absl::MutexLock lock(&mutex_);
  in_process_.insert_or_assign(std::string(name), server);
}

absl::StatusOr<std::shared_ptr<grpc::Channel>> Dialer::Dial(absl::string_view address,
                                                            Role server) {
  if (absl::Status valid = CheckAddress(address); !valid.ok()) return valid;
  PrepareGrpc();
  const grpc::ChannelArguments arguments = ChannelArgumentsForPeers();
  if (absl::string_view name = address; absl::ConsumePrefix(&name, kInProcess)) {
    absl::MutexLock lock(&mutex_);
    const auto server = in_process_.find(std::string(name));
    if (server == in_process_.end()) {
      return absl::NotFoundError(absl::StrCat("no in-process server named ", name));
    }
    return server->second->InProcessChannel(arguments);
  }
  absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> credentials =
      CredentialsFor(address, server);
  if (!credentials.ok()) return credentials.status();
  return grpc::CreateCustomChannel(std::string(address), *credentials, arguments);
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> Dialer::CredentialsFor(
    absl::string_view address, Role server) {
  if (IsOwnersAddress(address)) return grpc::InsecureChannelCredentials();
  absl::MutexLock lock(&mutex_);
  std::shared_ptr<grpc::ChannelCredentials>& known = mutual_tls_[server];
  if (known == nullptr) {
    absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> made =
        PipelineChannelCredentials(address, tls_, server);
    if (!made.ok()) return made.status();
    known = *std::move(made);
  }
  return known;
}

}  // namespace sluice
