// Who is at the other end of a connection, by the certificate that its handshake verified.
#pragma once

#include <grpcpp/security/auth_context.h>

#include <string>

#include "absl/strings/string_view.h"
#include "services/security/role.h"

namespace sluice {

// None where the peer showed no certificate.
RoleSet RolesOf(const grpc::AuthContext& peer, absl::string_view domain);

// Empty where there is none.
std::string CommonNameOf(const grpc::AuthContext& peer);

}  // namespace sluice
