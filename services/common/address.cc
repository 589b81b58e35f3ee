#include "services/common/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/un.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>

#include "absl/strings/ascii.h"
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

// Of names (RFC 1123, and the underscore that people use all the same) and of IPv4 addresses.
bool BelongsToHost(unsigned char c) {
  return absl::ascii_isalnum(c) || c == '-' || c == '.' || c == '_';
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
  const bool is_name = std::all_of(host.begin(), host.end(), BelongsToHost);
  if (!is_name && host.front() != '[') {
    return Refuse(address, absl::StrCat("has the host \"", host, "\", which is no name or address"),
                  absl::StrCat("127.0.0.1:", port));
  }
  uint32_t number = 0;
  const bool is_number = std::all_of(port.begin(), port.end(), absl::ascii_isdigit);
  if (is_number && absl::SimpleAtoi(port, &number) && number <= 65535) return absl::OkStatus();
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

absl::Status CheckListenAddress(absl::string_view address) {
  if (absl::Status valid = CheckAddress(address); !valid.ok()) return valid;
  absl::string_view path = address;
  if (!absl::ConsumePrefix(&path, "unix:")) return absl::OkStatus();
  constexpr size_t kMaxPath = sizeof(sockaddr_un::sun_path) - 1;
  if (path.size() > kMaxPath) {
    return absl::InvalidArgumentError(absl::StrCat("\"", address, "\" has a path of ", path.size(),
                                                   " bytes; accepted: at most ", kMaxPath));
  }
  const std::filesystem::path folder = std::filesystem::path(std::string(path)).parent_path();
  std::error_code ignored;  // where it can't be told, listening says why
  if (folder.empty() || std::filesystem::exists(folder, ignored) || ignored) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("\"", address, "\" is in the folder ", folder.string(), ", which is not there"));
}

}  // namespace sluice
