#include "services/security/local_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <string>

#include "absl/strings/match.h"

namespace sluice {

bool IsUnixAddress(absl::string_view address) { return absl::StartsWith(address, "unix:"); }

bool IsOwnersAddress(absl::string_view address) {
  return IsUnixAddress(address) || absl::StartsWith(address, "inproc:");
}

bool IsLocalAddress(absl::string_view address) {
  const absl::string_view host = address.substr(0, address.find(':'));
  in_addr ip;
  // Parsed, not compared by its beginning: 127.example.org is anywhere.
  const bool is_loopback =
      inet_pton(AF_INET, std::string(host).c_str(), &ip) == 1 && (ntohl(ip.s_addr) >> 24) == 127;
  return is_loopback || IsOwnersAddress(address) || absl::StartsWith(address, "localhost:") ||
         absl::StartsWith(address, "[::1]:");
}

}  // namespace sluice
