#include "services/security/authenticator.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "services/security/peer.h"

namespace sluice {
namespace {

constexpr absl::string_view kScheme = "Bearer ";

}  // namespace

absl::StatusOr<Caller> Authenticator::Admit(const grpc::ServerContextBase& context) const {
  const auto header = context.client_metadata().find("authorization");
  if (header == context.client_metadata().end()) return Admit(std::nullopt, context);
  return Admit(absl::string_view(header->second.data(), header->second.size()), context);
}

absl::StatusOr<Caller> Authenticator::Admit(std::optional<absl::string_view> authorization,
                                            const grpc::ServerContextBase& context) const {
  if (options_.tokens != nullptr && authorization.has_value()) {
    // The scheme's name is written in any case (RFC 9110, 11.1).
    if (!absl::StartsWithIgnoreCase(*authorization, kScheme)) {
      return absl::UnauthenticatedError("authorization is not \"Bearer TOKEN\"");
    }
    return options_.tokens->Find(authorization->substr(kScheme.size()));
  }
  const std::shared_ptr<const grpc::AuthContext> peer = context.auth_context();
  if (options_.certificates && peer != nullptr && peer->IsPeerAuthenticated()) {
    return HolderOfCertificate(*peer);
  }
  return absl::UnauthenticatedError(Expected());
}

absl::StatusOr<Caller> Authenticator::HolderOfCertificate(const grpc::AuthContext& peer) const {
  const std::string& domain = options_.client_domain;
  if (!domain.empty()) {
    const RoleSet roles = RolesOf(peer, domain);
    if (!roles.Has(Role::kClient)) {
      return absl::UnauthenticatedError(absl::StrCat("the caller's certificate makes it ",
                                                     roles.ToString(), ", not client of ", domain));
    }
  }
  return Caller{.tenant = CommonNameOf(peer)};
}

std::string Authenticator::Expected() const {
  if (options_.tokens == nullptr) return "the call needs a client certificate";
  return absl::StrCat("the call needs metadata \"authorization: Bearer TOKEN\"",
                      options_.certificates ? " or a client certificate" : "");
}

}  // namespace sluice
