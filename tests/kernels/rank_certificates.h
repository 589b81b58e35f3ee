// Certificates for ranks, and for those who only would like to be ranks. Thread-safe once made.
#pragma once

#include <string>

#include "kernels/communicator/tcp/tls_stream.h"
#include "tests/testing/test_authority.h"

namespace sluice::testing {

class RankCertificates {
 public:
  // The same for the whole process; its files go with it.
  static RankCertificates& Shared();

  // Those of a shard of the default domain.
  const RankTls& Right() const { return right_; }
  // Signed by the same authority.
  RankTls Issue(const std::string& name, const CertificateSpec& spec);

  const std::string& folder() const { return folder_; }

 private:
  RankCertificates();
  ~RankCertificates();

  const std::string folder_;
  TestAuthority authority_;
  RankTls right_;
};

}  // namespace sluice::testing
