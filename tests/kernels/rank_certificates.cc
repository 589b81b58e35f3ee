#include "tests/kernels/rank_certificates.h"

#include <unistd.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "services/shard/rank_security.h"

namespace sluice::testing {
namespace {

std::string MakeFolder() {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / absl::StrCat("sluice-ranks-", getpid());
  std::filesystem::create_directories(folder);
  return folder;
}

}  // namespace

RankCertificates::RankCertificates()
    : folder_(MakeFolder()),
      authority_(folder_, "authority"),
      right_(Issue("shard", {.names = {"DNS:shard.sluice.internal"}})) {}

RankCertificates::~RankCertificates() { std::filesystem::remove_all(folder_); }

RankCertificates& RankCertificates::Shared() {
  static RankCertificates shared;
  return shared;
}

RankTls RankCertificates::Issue(const std::string& name, const CertificateSpec& spec) {
  return RankTlsOf(authority_.Issue(name, spec));
}

}  // namespace sluice::testing
