#include "services/common/transport.h"

#include <arpa/inet.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/support/channel_arguments.h>
#include <netinet/in.h>

#include <fstream>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "services/common/grpc_runtime.h"

namespace sluice {
namespace {

constexpr char kInProcess[] = "inproc:";

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream contents;
  contents << file.rdbuf();
  // The second fails where nothing came: an empty file, or a folder, which opens like one.
  if (!file || !contents) {
    return absl::NotFoundError(absl::StrCat("cannot read TLS file ", path, ", or it is empty"));
  }
  return contents.str();
}

struct Pem {
  std::string certificate, key, authority;
};

absl::StatusOr<Pem> ReadPem(absl::string_view address, const TlsFiles& tls) {
  if (tls.certificate.empty() || tls.key.empty() || tls.authority.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        address,
        " is neither a unix socket nor a loopback address: it needs mutual TLS, set all of "
        "--tls_cert, --tls_key and --tls_ca"));
  }
  Pem pem;
  for (auto [path, into] :
       {std::pair(&tls.certificate, &pem.certificate), std::pair(&tls.key, &pem.key),
        std::pair(&tls.authority, &pem.authority)}) {
    absl::StatusOr<std::string> text = ReadFile(*path);
    if (!text.ok()) return text.status();
    *into = *std::move(text);
  }
  return pem;
}

grpc::ChannelArguments ChannelArgumentsForPeers() {
  grpc::ChannelArguments arguments;
  // A prefill step's rows are larger than gRPC's default of 4 MB.
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetMaxSendMessageSize(-1);
  // Notice a peer that vanished without closing its connection.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 10'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5'000);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // Calls that change nothing may be made again when the tokenizer is lost under them.
  arguments.SetServiceConfigJSON(R"({"methodConfig": [{
    "name": [{"service": "sluice.v1.TokenizerService", "method": "Tokenize"},
             {"service": "sluice.v1.TokenizerService", "method": "Detokenize"},
             {"service": "sluice.v1.TokenizerService", "method": "ApplyChatTemplate"},
             {"service": "sluice.v1.TokenizerService", "method": "GetInfo"}],
    "retryPolicy": {"maxAttempts": 5, "initialBackoff": "0.1s", "maxBackoff": "1s", "backoffMultiplier": 2,
                    "retryableStatusCodes": ["UNAVAILABLE"]}}]})");
  // A process that was restarted is back within tens of milliseconds.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 2'000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2'000);
  return arguments;
}

}  // namespace

bool IsLocalAddress(absl::string_view address) {
  const absl::string_view host = address.substr(0, address.find(':'));
  in_addr ip;
  // Parsed, not compared by its beginning: 127.example.org is anywhere.
  const bool is_loopback =
      inet_pton(AF_INET, std::string(host).c_str(), &ip) == 1 && (ntohl(ip.s_addr) >> 24) == 127;
  return is_loopback || absl::StartsWith(address, "unix:") ||
         absl::StartsWith(address, kInProcess) || absl::StartsWith(address, "localhost:") ||
         absl::StartsWith(address, "[::1]:");
}

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> ServerCredentialsFor(
    absl::string_view address, const TlsFiles& tls) {
  if (IsLocalAddress(address) && (tls.empty() || absl::StartsWith(address, "unix:"))) {
    return grpc::InsecureServerCredentials();
  }
  absl::StatusOr<Pem> pem = ReadPem(address, tls);
  if (!pem.ok()) return pem.status();
  grpc::SslServerCredentialsOptions options(
      GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_root_certs = pem->authority;
  options.pem_key_cert_pairs.push_back({pem->key, pem->certificate});
  return grpc::SslServerCredentials(options);
}

void Dialer::RegisterInProcess(absl::string_view name, grpc::Server* server) {
  absl::MutexLock lock(&mutex_);
  in_process_.insert_or_assign(std::string(name), server);
}

absl::StatusOr<std::shared_ptr<grpc::Channel>> Dialer::Dial(absl::string_view address) {
  if (address.empty()) return absl::InvalidArgumentError("empty address");
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
  if (IsLocalAddress(address) && (tls_.empty() || absl::StartsWith(address, "unix:"))) {
    return grpc::CreateCustomChannel(std::string(address), grpc::InsecureChannelCredentials(),
                                     arguments);
  }
  absl::StatusOr<Pem> pem = ReadPem(address, tls_);
  if (!pem.ok()) return pem.status();
  const grpc::SslCredentialsOptions options{pem->authority, pem->key, pem->certificate};
  return grpc::CreateCustomChannel(std::string(address), grpc::SslCredentials(options), arguments);
}

}  // namespace sluice
