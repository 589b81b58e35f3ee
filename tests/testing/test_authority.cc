#include "tests/testing/test_authority.h"

#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <utility>

#include "absl/strings/str_join.h"
#include "absl/time/clock.h"

namespace sluice::testing {
namespace {

std::string PemOf(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  std::string text(data, static_cast<size_t>(size));
  BIO_free(bio);
  return text;
}

std::string PemOf(X509* certificate) {
  BIO* bio = BIO_new(BIO_s_mem());
  PEM_write_bio_X509(bio, certificate);
  return PemOf(bio);
}

std::string PemOf(EVP_PKEY* key) {
  BIO* bio = BIO_new(BIO_s_mem());
  PEM_write_bio_PrivateKey(bio, key, nullptr, nullptr, 0, nullptr, nullptr);
  return PemOf(bio);
}

void Extend(X509* certificate, int nid, const std::string& value) {
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, nullptr, nid, value.c_str());
  X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
}

X509* Sign(const CertificateSpec& spec, bool is_authority, EVP_PKEY* key, X509* issuer,
           EVP_PKEY* issuer_key) {
  static long serial = 0;
  X509* certificate = X509_new();
  X509_set_version(certificate, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), ++serial);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(spec.common_name.c_str()), -1,
                             -1, 0);
  X509_set_issuer_name(certificate,
                       X509_get_subject_name(issuer != nullptr ? issuer : certificate));
  ASN1_TIME_set(X509_getm_notBefore(certificate), absl::ToTimeT(spec.from));
  ASN1_TIME_set(X509_getm_notAfter(certificate), absl::ToTimeT(spec.to));
  X509_set_pubkey(certificate, key);
  if (is_authority) Extend(certificate, NID_basic_constraints, "critical,CA:TRUE");
  if (!spec.names.empty()) {
    Extend(certificate, NID_subject_alt_name, absl::StrJoin(spec.names, ","));
  }
  X509_sign(certificate, issuer_key, EVP_sha256());
  return certificate;
}

void Replace(const std::string& path, const std::string& text) {
  const std::string fresh = path + ".new";
  std::ofstream(fresh, std::ios::binary) << text;
  std::filesystem::rename(fresh, path);
}

}  // namespace

TestAuthority::TestAuthority(std::string folder, const std::string& name)
    : folder_(std::move(folder)),
      certificate_path_(folder_ + "/" + name + ".pem"),
      key_(EVP_EC_gen("P-256")),
      certificate_(Sign({.common_name = name}, true, key_, nullptr, key_)) {
  Replace(certificate_path_, PemOf(certificate_));
}

TestAuthority::~TestAuthority() {
  X509_free(certificate_);
  EVP_PKEY_free(key_);
}

TlsFiles TestAuthority::Issue(const std::string& name, const CertificateSpec& spec) {
  EVP_PKEY* key = EVP_EC_gen("P-256");
  X509* certificate = Sign(spec, false, key, certificate_, key_);
  TlsFiles files{.certificate = folder_ + "/" + name + ".crt",
                 .key = folder_ + "/" + name + ".key",
                 .authority = certificate_path_};
  Replace(files.key, PemOf(key));
  Replace(files.certificate, PemOf(certificate));
  X509_free(certificate);
  EVP_PKEY_free(key);
  return files;
}

}  // namespace sluice::testing
