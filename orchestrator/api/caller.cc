#include "orchestrator/api/caller.h"

#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "services/common/utf8_text.h"

namespace sluice {
namespace {

constexpr char kTenantKey[] = "sluice-tenant";
constexpr size_t kMaxTenantBytes = 128;

absl::StatusOr<std::string> CheckTenant(absl::string_view name) {
  if (name.empty() || name.size() > kMaxTenantBytes) {
    return absl::InvalidArgumentError(absl::StrCat("metadata sluice-tenant has ", name.size(),
                                                   " bytes; accepted: 1 to ", kMaxTenantBytes));
  }
  // The listener lets any bytes through; a message with them as a string could not be read.
  if (!IsUtf8(name)) {
    return absl::InvalidArgumentError("metadata sluice-tenant is not UTF-8; accepted: UTF-8");
  }
  return std::string(name);
}

}  // namespace

absl::StatusOr<std::string> TenantOf(const grpc::ServerContextBase& context) {
  const auto [begin, end] = context.client_metadata().equal_range(kTenantKey);
  if (begin != end) {
    if (std::next(begin) != end) {
      return absl::InvalidArgumentError("metadata sluice-tenant is there more than once");
    }
    if (begin->second.empty()) return CheckTenant("");
    return TenantOf({begin->second.data(), begin->second.size()}, context);
  }
  return TenantOf("", context);
}

absl::StatusOr<std::string> TenantOf(absl::string_view named,
                                     const grpc::ServerContextBase& context) {
  if (!named.empty()) return CheckTenant(named);
  if (const auto auth = context.auth_context(); auth != nullptr && auth->IsPeerAuthenticated()) {
    for (const grpc::string_ref& identity : auth->GetPeerIdentity()) {
      return EscapedUnlessUtf8({identity.data(), identity.size()});
    }
  }
  return EscapedUnlessUtf8(HostOfPeer(context.peer()));
}

std::optional<TraceContext> TraceOf(const grpc::ServerContextBase& context) {
  const auto [begin, end] = context.client_metadata().equal_range(kTraceParentKey);
  if (begin == end || std::next(begin) != end) return std::nullopt;
  std::string state;
  const auto [first, last] = context.client_metadata().equal_range(kTraceStateKey);
  for (auto entry = first; entry != last; ++entry) {
    absl::StrAppend(&state, state.empty() ? "" : ",",
                    absl::string_view(entry->second.data(), entry->second.size()));
  }
  return ParseTraceContext({begin->second.data(), begin->second.size()}, state);
}

std::string HostOfPeer(absl::string_view peer) {
  if (!absl::ConsumePrefix(&peer, "ipv4:") && !absl::ConsumePrefix(&peer, "ipv6:")) {
    return std::string(peer);
  }
  const std::string host(peer.substr(0, peer.rfind(':')));
  return absl::StrReplaceAll(host, {{"%5B", ""}, {"%5D", ""}, {"[", ""}, {"]", ""}});
}

}  // namespace sluice
