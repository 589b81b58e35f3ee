#include "services/security/certificate_files.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <array>
#include <ctime>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "services/security/read_file.h"

namespace sluice {
namespace {

using Bio = std::unique_ptr<BIO, decltype(&BIO_free)>;
using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;
using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;

Bio Open(const std::string& pem) {
  return {BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())), &BIO_free};
}

// The first certificate of the file, which in a chain is the holder's own.
absl::Status ReadCertificate(const std::string& path, Certificate* into) {
  std::string pem;
  if (const absl::Status read = ReadSecurityFile(path, &pem); !read.ok()) return read;
  into->reset(PEM_read_bio_X509(Open(pem).get(), nullptr, nullptr, nullptr));
  ERR_clear_error();
  if (*into != nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(path, " holds no certificate in PEM"));
}

using Store = std::unique_ptr<X509_STORE, decltype(&X509_STORE_free)>;
using StoreContext = std::unique_ptr<X509_STORE_CTX, decltype(&X509_STORE_CTX_free)>;

// All certificates of a file.
absl::StatusOr<std::vector<Certificate>> ReadCertificates(const std::string& path) {
  std::string pem;
  if (const absl::Status read = ReadSecurityFile(path, &pem); !read.ok()) return read;
  const Bio bio = Open(pem);
  std::vector<Certificate> certificates;
  while (X509* certificate = PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr)) {
    certificates.emplace_back(certificate, &X509_free);
  }
  ERR_clear_error();
  if (!certificates.empty()) return certificates;
  return absl::InvalidArgumentError(absl::StrCat(path, " holds no certificate in PEM"));
}

std::string NameOf(const X509_NAME* name) {
  std::array<char, 256> text = {};
  X509_NAME_oneline(name, text.data(), text.size());
  return text.data();
}

absl::Status ReadKey(const std::string& path, Key* into) {
  std::string pem;
  if (const absl::Status read = ReadSecurityFile(path, &pem); !read.ok()) return read;
  // Asks nobody for a passphrase.
  const auto no_passphrase = [](char*, int, int, void*) { return 0; };
  into->reset(PEM_read_bio_PrivateKey(Open(pem).get(), nullptr, no_passphrase, nullptr));
  ERR_clear_error();
  if (*into != nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(path, " holds no private key in PEM without a passphrase"));
}

std::string TextOf(const ASN1_TIME* time) {
  std::tm parts{};
  if (ASN1_TIME_to_tm(time, &parts) != 1) return "an unreadable date";
  return absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", absl::FromTM(parts, absl::UTCTimeZone()),
                          absl::UTCTimeZone());
}

absl::Status CheckDates(const std::string& path, const X509& certificate, absl::Time now) {
  std::time_t seconds = absl::ToTimeT(now);
  if (X509_cmp_time(X509_get0_notAfter(&certificate), &seconds) < 0) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " expired on ", TextOf(X509_get0_notAfter(&certificate))));
  }
  if (X509_cmp_time(X509_get0_notBefore(&certificate), &seconds) > 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        path, " holds from ", TextOf(X509_get0_notBefore(&certificate)), " on, not yet"));
  }
  return absl::OkStatus();
}

absl::Status CheckIdentity(const TlsFiles& tls, absl::Time now) {
  if (tls.certificate.empty() != tls.key.empty()) {
    return absl::InvalidArgumentError(tls.key.empty()
                                          ? absl::StrCat(tls.certificate, " comes without its key")
                                          : absl::StrCat(tls.key, " comes without a certificate"));
  }
  if (tls.certificate.empty()) return absl::OkStatus();
  Certificate certificate(nullptr, &X509_free);
  Key key(nullptr, &EVP_PKEY_free);
  if (const absl::Status read = ReadCertificate(tls.certificate, &certificate); !read.ok()) {
    return read;
  }
  if (const absl::Status read = ReadKey(tls.key, &key); !read.ok()) return read;
  const bool fits = X509_check_private_key(certificate.get(), key.get()) == 1;
  ERR_clear_error();
  if (!fits) {
    return absl::InvalidArgumentError(
        absl::StrCat("the key ", tls.key, " is not that of the certificate ", tls.certificate));
  }
  return CheckDates(tls.certificate, *certificate, now);
}

}  // namespace

absl::Status ReadSecurityFile(const std::string& path, std::string* into) {
  absl::StatusOr<std::string> contents = ReadRegularFile(path);
  if (!contents.ok()) {
    return absl::Status(contents.status().code(), absl::StrCat("cannot read TLS file ", path, ": ",
                                                               contents.status().message()));
  }
  if (contents->empty()) return absl::NotFoundError(absl::StrCat("TLS file ", path, " is empty"));
  *into = *std::move(contents);
  return absl::OkStatus();
}

absl::Status CheckIssuer(const TlsFiles& tls) {
  const auto chain = ReadCertificates(tls.certificate);
  if (!chain.ok()) return chain.status();
  const auto authorities = ReadCertificates(tls.authority);
  if (!authorities.ok()) return authorities.status();
  const Store store(X509_STORE_new(), &X509_STORE_free);
  for (const Certificate& authority : *authorities)
    X509_STORE_add_cert(store.get(), authority.get());
  // Dates are looked at elsewhere; who trusts an authority between trusts it without what is above.
  X509_STORE_set_flags(store.get(), X509_V_FLAG_PARTIAL_CHAIN | X509_V_FLAG_NO_CHECK_TIME);
  STACK_OF(X509)* const between = sk_X509_new_null();
  for (size_t i = 1; i < chain->size(); ++i) sk_X509_push(between, (*chain)[i].get());
  const StoreContext context(X509_STORE_CTX_new(), &X509_STORE_CTX_free);
  X509* const own = chain->front().get();
  const bool issued = X509_STORE_CTX_init(context.get(), store.get(), own, between) == 1 &&
                      X509_verify_cert(context.get()) == 1;
  sk_X509_free(between);
  ERR_clear_error();
  if (issued) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(tls.certificate, " was issued by ", NameOf(X509_get_issuer_name(own)),
                   ", which is no authority in ", tls.authority, ": no peer would take it"));
}

absl::Status CheckCertificateFiles(const TlsFiles& tls, absl::Time now) {
  if (const absl::Status identity = CheckIdentity(tls, now); !identity.ok()) return identity;
  if (tls.authority.empty()) return absl::OkStatus();
  Certificate authority(nullptr, &X509_free);
  return ReadCertificate(tls.authority, &authority);
}

}  // namespace sluice
