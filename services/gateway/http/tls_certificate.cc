#include "services/gateway/http/tls_certificate.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace sluice::http {
namespace {

namespace ssl = boost::asio::ssl;
using Error = boost::system::error_code;

constexpr absl::Duration kLookEvery = absl::Seconds(1);

absl::StatusOr<std::shared_ptr<ssl::context>> Read(const std::string& certificate,
                                                   const std::string& key) {
  auto context = std::make_shared<ssl::context>(ssl::context::tls_server);
  Error error;
  context->set_options(
      ssl::context::default_workarounds | ssl::context::no_tlsv1 | ssl::context::no_tlsv1_1, error);
  if (!error) context->use_certificate_chain_file(certificate, error);
  if (error) {
    return absl::NotFoundError(
        absl::StrCat("cannot use the certificate ", certificate, ": ", error.message()));
  }
  context->use_private_key_file(key, ssl::context::pem, error);
  if (error) {
    return absl::NotFoundError(absl::StrCat("cannot use the key ", key, ": ", error.message()));
  }
  return context;
}

}  // namespace

bool TlsCertificate::Version::operator==(const Version& other) const {
  return inode == other.inode && changed.tv_sec == other.changed.tv_sec &&
         changed.tv_nsec == other.changed.tv_nsec;
}

TlsCertificate::Version TlsCertificate::VersionOf(const std::string& path) {
  struct stat found = {};
  if (stat(path.c_str(), &found) != 0) return {};
  return {.inode = found.st_ino, .changed = found.st_mtim};
}

absl::StatusOr<std::unique_ptr<TlsCertificate>> TlsCertificate::Load(std::string certificate,
                                                                     std::string key) {
  std::unique_ptr<TlsCertificate> loaded(
      new TlsCertificate(std::move(certificate), std::move(key)));
  absl::MutexLock lock(&loaded->mutex_);
  loaded->certificate_version_ = VersionOf(loaded->certificate_);
  loaded->key_version_ = VersionOf(loaded->key_);
  absl::StatusOr<std::shared_ptr<ssl::context>> context = Read(loaded->certificate_, loaded->key_);
  if (!context.ok()) return context.status();
  loaded->context_ = *std::move(context);
  return loaded;
}

std::shared_ptr<ssl::context> TlsCertificate::Current() {
  absl::MutexLock lock(&mutex_);
  const absl::Time now = absl::Now();
  if (now - looked_ < kLookEvery) return context_;
  looked_ = now;
  const Version certificate = VersionOf(certificate_);
  const Version key = VersionOf(key_);
  if (certificate == certificate_version_ && key == key_version_) return context_;
  absl::StatusOr<std::shared_ptr<ssl::context>> context = Read(certificate_, key_);
  if (!context.ok()) return context_;
  context_ = *std::move(context);
  certificate_version_ = certificate;
  key_version_ = key;
  return context_;
}

}  // namespace sluice::http
