#include "services/security/method_access.h"

#include "absl/strings/str_cat.h"
#include "services/security/peer.h"

namespace sluice {
grpc::Status MethodAccess::Process(const InputMetadata& metadata, grpc::AuthContext* context,
                                   OutputMetadata*, OutputMetadata*) {
  const auto path = metadata.find(":path");
  const absl::string_view method =
      path == metadata.end() ? absl::string_view()
                             : absl::string_view(path->second.data(), path->second.size());
  const RoleSet caller = RolesOf(*context, domain_);
  const RoleSet callers = CallersOf(method, pushers_);
  if (caller.Meets(callers)) return grpc::Status::OK;
  return {grpc::StatusCode::PERMISSION_DENIED,
          absl::StrCat(std::string(method), " is for ", callers.ToString(),
                       "; the caller's certificate makes it ", caller.ToString())};
}

}  // namespace sluice
