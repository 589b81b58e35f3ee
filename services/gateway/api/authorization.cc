#include "services/gateway/api/authorization.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "services/messages/metadata.h"

namespace sluice::gateway {
namespace {

constexpr size_t kMaxBytes = 4096;  // gRPC takes 8 KiB of metadata for a call

absl::Status Check(const http::Request& request, absl::string_view name) {
  const auto count = std::count_if(request.headers.begin(), request.headers.end(),
                                   [&](const auto& header) { return header.first == name; });
  if (count > 1) {
    return absl::UnauthenticatedError(
        absl::StrCat("the header ", name, " is there more than once"));
  }
  const absl::string_view value = request.Header(name).value_or("");
  if (value.size() > kMaxBytes) {
    return absl::UnauthenticatedError(absl::StrCat("the header ", name, " has ", value.size(),
                                                   " bytes; accepted: up to ", kMaxBytes));
  }
  if (IsMetadataValue(value)) return absl::OkStatus();
  return absl::UnauthenticatedError(
      absl::StrCat("the header ", name, " has a character that is not printable ASCII"));
}

}  // namespace

absl::StatusOr<std::string> AuthorizationOf(const http::Request& request) {
  absl::Status status = Check(request, "authorization");
  status.Update(Check(request, "x-api-key"));
  if (!status.ok()) return status;
  if (const auto value = request.Header("authorization")) return std::string(*value);
  if (const auto key = request.Header("x-api-key")) return absl::StrCat("Bearer ", *key);
  return std::string();
}

std::string TenantOf(const http::Request& request) {
  const std::string authorization = AuthorizationOf(request).value_or("");
  return authorization.empty() ? request.peer : authorization;
}

}  // namespace sluice::gateway
