// gRPC credentials of listeners and channels, by what they are for. Certificates are watched: a
// file that changes counts from the next handshake on, within a second, and open streams stay.
// Thread-safe. Errors are those of CheckCertificateFiles besides the ones named.
#pragma once

#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>

#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "services/security/role.h"
#include "services/security/tls_files.h"

namespace sluice {

// The private plane: between the processes of a pipeline. Plaintext on unix sockets and within the
// process, mutual TLS by role everywhere else, loopback included: other users of the host reach it
// too. FAILED_PRECONDITION where `address` needs certificates and `tls` is not complete.

// `self` is what the server is; `pushers` is who may send activations to it. A channel reaches a
// server whose certificate names the role `server`, and no other.
absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> PipelineServerCredentials(
    absl::string_view address, const TlsFiles& tls, Role self, RoleSet pushers = {});
absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> PipelineChannelCredentials(
    absl::string_view address, const TlsFiles& tls, Role server);

// The public listener.
struct PublicListener {
  TlsFiles tls;  // authority: of clients' certificates; none: clients bring none
  // Clients' certificates must name the role `client`.
  bool clients_by_role = false;
  // Callers may show a bearer token instead of a certificate; the service looks at it.
  bool tokens = false;
  // Plaintext off loopback, and callers without token or certificate.
  bool insecure = false;
};

// FAILED_PRECONDITION where `address` is not local and would be served in plaintext, or to callers
// who prove nothing, without `insecure`; and for an authority of clients without a certificate to
// serve with.
absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> PublicServerCredentials(
    absl::string_view address, const PublicListener& options);

// A client of the public API.
struct ClientSecurity {
  TlsFiles tls;  // authority empty: the system's, where `use_tls`
  bool use_tls = false;
  // What the server is to be where its certificate names roles at all; unset: anything.
  std::optional<Role> server;
  // Plaintext to another host.
  bool insecure = false;

  bool wants_tls() const { return use_tls || !tls.empty(); }
};

// Plaintext where the address is local and no TLS is asked for. The server's certificate must be
// for the host dialled. FAILED_PRECONDITION for another host without TLS or `insecure`.
absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> ClientChannelCredentials(
    absl::string_view address, const ClientSecurity& options);

}  // namespace sluice
