// Allowed Host names and origins of web pages: protection against DNS rebinding and against calls
// from pages of other origins. Constant.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "services/gateway/http/message.h"

namespace sluice::http {

struct OriginPolicy {
  // Requests must name a host of this list, an IP address or localhost; without the list, any host
  // is accepted.
  bool checks_host = false;
  std::vector<std::string> hosts;  // lower-case; "*": any
  // The web origin whose pages may call besides the server's own, such as https://example.org, or
  // "*" for any; none where empty.
  std::string allowed_origin;

  // Why the request is refused (403); nothing where it is not.
  std::optional<std::string> Refusal(const Request& request) const;
};

// "localhost", a name below it, or an IP address; `host` is lower-case and without a port.
bool IsAddressOrLocalhost(absl::string_view host);

}  // namespace sluice::http
