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

// For channels to the public API: the certificate is to be for the host that is dialled, and where it
// names roles of a domain at or below `domain`, `wanted` is to be among them. One that names none,
// such as a public authority's, passes by its host name alone.
std::shared_ptr<grpc::experimental::CertificateVerifier> MakeHostAndRoleVerifier(
    Role wanted, std::string domain);

}  // namespace sluice
