// Identity of a peer, from the certificate that its handshake verified.
#pragma once

#include <grpcpp/security/auth_context.h>

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "services/security/role.h"

namespace sluice {

// None where the peer showed no certificate.
RoleSet RolesOf(const grpc::AuthContext& peer, absl::string_view domain);

// Empty where there is none.
std::string CommonNameOf(const grpc::AuthContext& peer);

// Names of a certificate as gRPC gives them, borrowed.
std::vector<absl::string_view> Views(const std::vector<grpc::string_ref>& names);

}  // namespace sluice
