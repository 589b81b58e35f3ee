#include "services/common/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace sluice {
namespace {

constexpr char kExample[] = "127.0.0.1:8700";

absl::Status Refuse(absl::string_view address, absl::string_view why, absl::string_view write) {
  return absl::InvalidArgumentError(
      absl::StrCat("\"", address, "\" ", why, ": write HOST:PORT, such as ", write));
}

bool IsIpv6(absl::string_view host) {
  in6_addr ip;
  return inet_pton(AF_INET6, std::string(host).c_str(), &ip) == 1;
}

// Of the kind that is easiest to write wrong.
absl::Status CheckIpv6(absl::string_view address, absl::string_view host, absl::string_view port) {
  if (IsIpv6(host)) {
    return Refuse(address, "has an IPv6 address without brackets",
                  absl::StrCat("[", host, "]:", port));
  }
  if (IsIpv6(address)) {
    return Refuse(address, "has no port", absl::StrCat("[", address, "]:8700"));
  }
  return Refuse(address, "has more than one colon", kExample);
}

absl::Status CheckHostAndPort(absl::string_view address) {
  const size_t colon = address.rfind(':');
  if (colon == absl::string_view::npos) return Refuse(address, "has no port or no host", kExample);
  const absl::string_view host = address.substr(0, colon);
  const absl::string_view port = address.substr(colon + 1);
  if (host.empty()) {
    return Refuse(address, "has no host", absl::StrCat("127.0.0.1:", port.empty() ? "8700" : port));
  }
  if (host.front() == '[') {
    const bool closed = host.back() == ']' && IsIpv6(host.substr(1, host.size() - 2));
    if (!closed) return Refuse(address, "has no IPv6 address in its brackets", "[::1]:8700");
  } else if (absl::StrContains(host, ':')) {
    return CheckIpv6(address, host, port);
  }
  uint32_t number = 0;
  if (absl::SimpleAtoi(port, &number) && number <= 65535) return absl::OkStatus();
  return Refuse(address, absl::StrCat("has the port \"", port, "\", which is not from 0 to 65535"),
                kExample);
}

}  // namespace

absl::Status CheckAddress(absl::string_view address) {
  if (address.empty()) return absl::InvalidArgumentError("empty address: write HOST:PORT");
  for (const char* prefix : {"unix:", "inproc:"}) {
    absl::string_view name = address;
    if (!absl::ConsumePrefix(&name, prefix)) continue;
    if (!name.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("\"", address, "\" names no socket"));
  }
  absl::string_view target = address;
  if (absl::ConsumePrefix(&target, "dns:")) {
    absl::ConsumePrefix(&target, "///");
    return CheckHostAndPort(target);
  }
  if (const size_t scheme = address.find("://"); scheme != absl::string_view::npos) {
    return Refuse(address, "begins like a URL", address.substr(scheme + 3));
  }
  return CheckHostAndPort(address);
}

}  // namespace sluice
