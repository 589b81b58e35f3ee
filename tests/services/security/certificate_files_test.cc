#include "services/security/certificate_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/testing/test_authority.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

class CertificateFilesTest : public ::testing::Test {
 protected:
  CertificateFilesTest() { std::filesystem::create_directories(folder_); }
  ~CertificateFilesTest() override { std::filesystem::remove_all(folder_); }

  std::string folder_ = absl::StrCat(::testing::TempDir(), "/certificates-", getpid());
};

TEST_F(CertificateFilesTest, AcceptsWhatFitsTogether) {
  testing::TestAuthority authority(folder_, "ca");
  const TlsFiles files = authority.Issue("peer", {});
  EXPECT_EQ(CheckCertificateFiles(files, absl::Now()), absl::OkStatus());
  EXPECT_EQ(CheckCertificateFiles({}, absl::Now()), absl::OkStatus());
  EXPECT_EQ(CheckCertificateFiles({.authority = files.authority}, absl::Now()), absl::OkStatus());
}

TEST_F(CertificateFilesTest, KnowsWhetherItsOwnAuthorityIssuedIt) {
  testing::TestAuthority authority(folder_, "ca");
  testing::TestAuthority stranger(folder_, "stranger");
  TlsFiles files = authority.Issue("peer", {});
  EXPECT_EQ(CheckIssuer(files), absl::OkStatus());
  files.authority = stranger.certificate();
  const absl::Status refused = CheckIssuer(files);
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr(absl::StrCat("which is no authority in ", stranger.certificate())));
  // While authorities change there are two in the file.
  const std::string both = folder_ + "/both.crt";
  std::ofstream file(both);
  for (const std::string& path : {stranger.certificate(), authority.certificate()}) {
    file << std::ifstream(path).rdbuf();
  }
  file.close();
  files.authority = both;
  EXPECT_EQ(CheckIssuer(files), absl::OkStatus());
  files.authority = folder_ + "/none.crt";
  EXPECT_EQ(CheckIssuer(files).code(), absl::StatusCode::kNotFound);
}

TEST_F(CertificateFilesTest, NamesTheFileAndWhatIsWrongWithIt) {
  testing::TestAuthority authority(folder_, "ca");
  const TlsFiles good = authority.Issue("peer", {});
  const TlsFiles other = authority.Issue("other", {});
  const std::string text = folder_ + "/text.pem";
  std::ofstream(text) << "no certificate\n";
  const auto changed = [&good](std::string TlsFiles::*field, const std::string& path) {
    TlsFiles files = good;
    files.*field = path;
    return files;
  };
  const absl::Time now = absl::Now();
  const std::vector<std::tuple<TlsFiles, absl::Time, absl::StatusCode, std::string>> cases = {
      {changed(&TlsFiles::certificate, "/none.crt"), now, absl::StatusCode::kNotFound,
       "/none.crt: No such file or directory"},
      {changed(&TlsFiles::authority, folder_), now, absl::StatusCode::kInvalidArgument,
       folder_ + ": it is no regular file"},
      {changed(&TlsFiles::certificate, text), now, absl::StatusCode::kInvalidArgument,
       text + " holds no certificate in PEM"},
      {changed(&TlsFiles::key, text), now, absl::StatusCode::kInvalidArgument,
       text + " holds no private key"},
      {changed(&TlsFiles::authority, text), now, absl::StatusCode::kInvalidArgument, text},
      {changed(&TlsFiles::key, other.key), now, absl::StatusCode::kInvalidArgument,
       absl::StrCat("the key ", other.key, " is not that of the certificate ", good.certificate)},
      {changed(&TlsFiles::key, ""), now, absl::StatusCode::kInvalidArgument, "without its key"},
      {good, now + absl::Hours(2), absl::StatusCode::kFailedPrecondition, "expired on "},
      {good, now - absl::Hours(2), absl::StatusCode::kFailedPrecondition, "not yet"},
  };
  for (const auto& [files, at, code, part] : cases) {
    const absl::Status status = CheckCertificateFiles(files, at);
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(part));
  }
}

}  // namespace
}  // namespace sluice
