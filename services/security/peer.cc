#include "services/security/peer.h"

#include <grpc/grpc_security_constants.h>

namespace sluice {

std::vector<absl::string_view> Views(const std::vector<grpc::string_ref>& names) {
  std::vector<absl::string_view> views;
  views.reserve(names.size());
  for (const grpc::string_ref& name : names) views.emplace_back(name.data(), name.size());
  return views;
}

RoleSet RolesOf(const grpc::AuthContext& peer, absl::string_view domain) {
  return RolesNamed(Views(peer.FindPropertyValues(GRPC_PEER_DNS_PROPERTY_NAME)),
                    Views(peer.FindPropertyValues(GRPC_PEER_URI_PROPERTY_NAME)), domain);
}

std::string CommonNameOf(const grpc::AuthContext& peer) {
  const std::vector<grpc::string_ref> names = peer.FindPropertyValues(GRPC_X509_CN_PROPERTY_NAME);
  return names.empty() ? "" : std::string(names.front().data(), names.front().size());
}

}  // namespace sluice
