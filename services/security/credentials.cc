#include "services/security/credentials.h"

#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "services/security/certificate_files.h"
#include "services/security/local_address.h"
#include "services/security/method_access.h"
#include "services/security/role_verifier.h"

namespace sluice {
namespace {

using grpc::experimental::CertificateProviderInterface;
using grpc::experimental::FileWatcherCertificateProvider;
using grpc::experimental::TlsChannelCredentialsOptions;
using grpc::experimental::TlsServerCredentialsOptions;

constexpr unsigned kWatchSeconds = 1;

std::shared_ptr<CertificateProviderInterface> Watch(const TlsFiles& tls) {
  return std::make_shared<FileWatcherCertificateProvider>(tls.key, tls.certificate, tls.authority,
                                                          kWatchSeconds);
}

absl::Status CheckPipeline(absl::string_view address, const TlsFiles& tls) {
  if (!tls.complete()) {
    return absl::FailedPreconditionError(absl::StrCat(
        std::string(address),
        IsLocalAddress(address) ? " can be reached by every user of this host"
                                : " is neither a unix socket nor in this process",
        ": between the processes of a pipeline it needs mutual TLS, set all of --tls_cert, "
        "--tls_key and --tls_ca",
        IsLocalAddress(address) ? ", or use unix:/path" : ""));
  }
  return CheckCertificateFiles(tls, absl::Now());
}

absl::Status CheckPublic(absl::string_view address, const PublicListener& options) {
  const TlsFiles& tls = options.tls;
  // In plaintext nobody would be asked for the certificate that this is about.
  if (!tls.authority.empty() && tls.certificate.empty() && !IsOwnersAddress(address)) {
    return absl::FailedPreconditionError(
        "--tls_ca says which clients' certificates are taken, which only TLS can ask for: set "
        "--tls_cert and --tls_key too");
  }
  if (!IsLocalAddress(address) && !options.insecure) {
    if (tls.certificate.empty() || tls.key.empty()) {
      return absl::FailedPreconditionError(absl::StrCat(
          std::string(address),
          " is neither a unix socket nor a loopback address: set --tls_cert and --tls_key, with "
          "--tls_ca for clients with certificates or --tokens for clients with tokens; or say "
          "--insecure_public"));
    }
    if (tls.authority.empty() && !options.tokens) {
      return absl::FailedPreconditionError(absl::StrCat(
          std::string(address),
          " would serve callers who prove nothing: set --tls_ca for clients with certificates, "
          "--tokens for clients with tokens, or say --insecure_public"));
    }
  }
  return CheckCertificateFiles(tls, absl::Now());
}

grpc_ssl_client_certificate_request_type ClientCertificates(const PublicListener& options) {
  if (options.tls.authority.empty()) return GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE;
  return options.tokens || options.insecure
             ? GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY
             : GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY;
}

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> PipelineServerCredentials(
    absl::string_view address, const TlsFiles& tls, Role self, RoleSet pushers) {
  if (IsOwnersAddress(address)) return grpc::InsecureServerCredentials();
  if (const absl::Status status = CheckPipeline(address, tls); !status.ok()) return status;
  TlsServerCredentialsOptions options(Watch(tls));
  options.watch_root_certs();
  options.watch_identity_key_cert_pairs();
  options.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  RoleSet wanted = pushers;
  wanted.Add(Role::kOrchestrator);
  // Other ranks, and probes that use the process's own certificate.
  wanted.Add(self);
  // It follows what the sampler chooses.
  if (self == Role::kSampler) wanted.Add(Role::kEmbedding);
  options.set_certificate_verifier(MakeRoleVerifier(wanted, tls.domain));
  std::shared_ptr<grpc::ServerCredentials> credentials =
      grpc::experimental::TlsServerCredentials(options);
  credentials->SetAuthMetadataProcessor(std::make_shared<MethodAccess>(pushers, tls.domain));
  return credentials;
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> PipelineChannelCredentials(
    absl::string_view address, const TlsFiles& tls, Role server) {
  if (IsOwnersAddress(address)) return grpc::InsecureChannelCredentials();
  if (const absl::Status status = CheckPipeline(address, tls); !status.ok()) return status;
  TlsChannelCredentialsOptions options;
  options.set_certificate_provider(Watch(tls));
  options.watch_root_certs();
  options.watch_identity_key_cert_pairs();
  // The role stands in the place of the host name.
  options.set_certificate_verifier(MakeRoleVerifier({server}, tls.domain));
  options.set_check_call_host(false);
  return grpc::experimental::TlsCredentials(options);
}

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> PublicServerCredentials(
    absl::string_view address, const PublicListener& listener) {
  if (const absl::Status status = CheckPublic(address, listener); !status.ok()) return status;
  if (IsOwnersAddress(address) || listener.tls.certificate.empty()) {
    return grpc::InsecureServerCredentials();
  }
  TlsServerCredentialsOptions options(Watch(listener.tls));
  options.watch_identity_key_cert_pairs();
  options.set_cert_request_type(ClientCertificates(listener));
  if (!listener.tls.authority.empty()) {
    options.watch_root_certs();
    // A certificate is asked for where the handshake requires one; where a token will do, the role
    // is looked at with the token.
    if (listener.clients_by_role && !listener.tokens && !listener.insecure) {
      options.set_certificate_verifier(
          MakeRoleVerifier({Role::kClient, Role::kOrchestrator}, listener.tls.domain));
    }
  }
  return grpc::experimental::TlsServerCredentials(options);
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> ClientChannelCredentials(
    absl::string_view address, const ClientSecurity& client) {
  if (IsOwnersAddress(address) || (!client.wants_tls() && IsLocalAddress(address)) ||
      (client.insecure && !client.wants_tls())) {
    return grpc::InsecureChannelCredentials();
  }
  if (!client.wants_tls()) {
    return absl::FailedPreconditionError(absl::StrCat(
        std::string(address),
        " is another host: set --tls_ca to the authority of its certificate (--tls: one that this "
        "system trusts), or say --insecure for plaintext"));
  }
  const absl::Status status = CheckCertificateFiles(client.tls, absl::Now());
  if (!status.ok()) return status;
  TlsChannelCredentialsOptions options;
  if (!client.tls.empty()) options.set_certificate_provider(Watch(client.tls));
  if (!client.tls.authority.empty()) options.watch_root_certs();
  if (!client.tls.certificate.empty()) options.watch_identity_key_cert_pairs();
  if (client.server.has_value()) {
    options.set_certificate_verifier(MakeHostAndRoleVerifier(*client.server, client.tls.domain));
  }
  return grpc::experimental::TlsCredentials(options);
}

}  // namespace sluice
