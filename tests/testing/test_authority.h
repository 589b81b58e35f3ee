// A certificate authority of a test's own, with certificates of every kind that a peer may show.
#pragma once

#include <openssl/types.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "services/security/tls_files.h"

namespace sluice::testing {

struct CertificateSpec {
  std::string common_name = "test";
  // As OpenSSL writes subjectAltName: "DNS:shard.sluice.internal", "URI:spiffe://d/shard",
  // "IP:127.0.0.1".
  std::vector<std::string> names;
  absl::Time from = absl::Now() - absl::Hours(1);
  absl::Time to = absl::Now() + absl::Hours(1);
};

// Writes PEM files into `folder`, which must exist, with names beginning with `name`.
class TestAuthority {
 public:
  TestAuthority(std::string folder, const std::string& name);
  ~TestAuthority();

  // Path of the authority's own certificate.
  const std::string& certificate() const { return certificate_path_; }

  // Certificate and key of a new peer; the authority is this one. Files of the same `name` are
  // replaced as Secrets are: by a rename.
  TlsFiles Issue(const std::string& name, const CertificateSpec& spec);

 private:
  const std::string folder_;
  std::string certificate_path_;
  EVP_PKEY* key_;
  X509* certificate_;
};

}  // namespace sluice::testing
