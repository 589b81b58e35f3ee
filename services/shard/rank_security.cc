#include "services/shard/rank_security.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "services/security/role.h"

namespace sluice {

RankTls RankTlsOf(const TlsFiles& files) {
  const auto check_peer = [domain = files.domain](const CertificateNames& names) {
    const std::vector<absl::string_view> dns(names.dns_names.begin(), names.dns_names.end());
    const std::vector<absl::string_view> uris(names.uris.begin(), names.uris.end());
    if (RolesNamed(dns, uris, domain).Has(Role::kShard)) return absl::OkStatus();
    return absl::PermissionDeniedError(absl::StrCat(
        "its names (", absl::StrJoin(dns, ", "), dns.empty() || uris.empty() ? "" : ", ",
        absl::StrJoin(uris, ", "), ") do not make it ", Name(Role::kShard), " of ", domain));
  };
  return {.certificate = files.certificate,
          .key = files.key,
          .authority = files.authority,
          .check_peer = check_peer};
}

}  // namespace sluice
