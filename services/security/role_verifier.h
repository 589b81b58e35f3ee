// Looks, at the end of a handshake, for the role in the certificate of the other side.
#pragma once

#include <grpcpp/security/tls_certificate_verifier.h>

#include <memory>
#include <string>

#include "services/security/role.h"

namespace sluice {

// Refuses a peer whose certificate names none of the `wanted` roles under `domain`, with a line in
// the log. The authority's signature and the dates have been verified before it is asked.
std::shared_ptr<grpc::experimental::CertificateVerifier> MakeRoleVerifier(RoleSet wanted,
                                                                          std::string domain);

}  // namespace sluice
