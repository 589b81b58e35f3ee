#include "services/gateway/http/origin_policy.h"

#include <arpa/inet.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace sluice::http {
namespace {

// Whether the origin is the server itself, under the name that the request has for it: browsers
// leave out the scheme's own port in both.
bool IsSameOrigin(absl::string_view origin, absl::string_view authority) {
  if (!absl::ConsumePrefix(&origin, "http://")) absl::ConsumePrefix(&origin, "https://");
  return absl::EqualsIgnoreCase(origin, authority);
}

}  // namespace

bool IsAddressOrLocalhost(absl::string_view host) {
  if (host == "localhost" || absl::EndsWith(host, ".localhost")) return true;
  in6_addr address = {};
  if (absl::StartsWith(host, "[") && absl::EndsWith(host, "]")) {
    return inet_pton(AF_INET6, std::string(host.substr(1, host.size() - 2)).c_str(), &address) == 1;
  }
  return inet_pton(AF_INET, std::string(host).c_str(), &address) == 1;
}

std::optional<std::string> OriginPolicy::Refusal(const Request& request) const {
  const std::string host = HostOf(request.authority);
  // Requests of HTTP/1.0 may name none; no browser sends those.
  if (checks_host && !request.authority.empty() && !IsAddressOrLocalhost(host)) {
    const bool is_known = std::any_of(hosts.begin(), hosts.end(), [&](const std::string& known) {
      return known == "*" || known == host;
    });
    if (!is_known) return "this server is not known by the name in the header Host";
  }
  const absl::string_view origin = request.Header("origin").value_or("");
  if (origin.empty() || allowed_origin == "*" || origin == allowed_origin) return std::nullopt;
  // A browser says it of pages whose server's name a proxy has changed; pages can't say it.
  if (request.Header("sec-fetch-site") == "same-origin") return std::nullopt;
  if (IsSameOrigin(origin, request.authority)) return std::nullopt;
  return "pages of other origins may not call this server";
}

}  // namespace sluice::http
