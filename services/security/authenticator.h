// Authenticates calls of the public API. Thread-safe.
#pragma once

#include <grpcpp/server_context.h>

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "services/security/token_file.h"

namespace sluice {

struct AuthenticatorOptions {
  std::unique_ptr<TokenFile> tokens;  // null: none are accepted
  bool certificates = false;          // a verified certificate of the connection is accepted
  // Certificates must name the role `client` under this domain; empty: any will do.
  std::string client_domain;
};

class Authenticator {
 public:
  explicit Authenticator(AuthenticatorOptions options) : options_(std::move(options)) {}

  // The caller that the call's metadata `authorization: Bearer TOKEN` names, else its certificate's
  // holder: the tenant is then the certificate's common name. UNAUTHENTICATED says what was
  // expected.
  absl::StatusOr<Caller> Admit(const grpc::ServerContextBase& context) const;
  // The same of a call that brings its `authorization` otherwise, over the connection of `context`.
  absl::StatusOr<Caller> Admit(std::optional<absl::string_view> authorization,
                               const grpc::ServerContextBase& context) const;

 private:
  absl::StatusOr<Caller> HolderOfCertificate(const grpc::AuthContext& context) const;
  std::string Expected() const;

  const AuthenticatorOptions options_;
};

}  // namespace sluice
