#include <openssl/err.h>
#include <openssl/ssl.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/check.h"
#include "kernels/communicator/tcp/tls_stream.h"

namespace sluice {
namespace {

// The fastest first, where the processor has AES instructions; all are safe.
constexpr char kCipherSuites[] =
    "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256";
// Several records come with one call of the kernel.
constexpr std::size_t kReadBufferBytes = std::size_t{128} << 10;

absl::Status FileFault(const std::string& path, const char* what) {
  const unsigned long error = ERR_peek_last_error();
  const char* const reason = ERR_reason_error_string(error);
  ERR_clear_error();
  return absl::FailedPreconditionError(absl::StrCat(
      "the TLS file ", path, ": ", what, " (", reason != nullptr ? reason : "unknown reason", ")"));
}

}  // namespace

TlsContext::TlsContext(const RankTls& tls) : tls_(tls), ssl_(SSL_CTX_new(TLS_method())) {}

TlsContext::~TlsContext() { SSL_CTX_free(ssl_); }

absl::StatusOr<std::shared_ptr<const TlsContext>> TlsContext::Load(const RankTls& tls) {
  SLUICE_CHECK(tls.check_peer != nullptr);
  const std::shared_ptr<const TlsContext> context(new TlsContext(tls));
  SSL_CTX* const ssl = context->ssl();
  if (ssl == nullptr) return absl::UnavailableError("OpenSSL has no TLS to offer");
  SSL_CTX_set_min_proto_version(ssl, TLS1_3_VERSION);
  SSL_CTX_set_ciphersuites(ssl, kCipherSuites);
  SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(ssl, 0);
  SSL_CTX_set_mode(ssl, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_read_ahead(ssl, 1);
  SSL_CTX_set_default_read_buffer_len(ssl, kReadBufferBytes);
  // Asks nobody for a passphrase.
  SSL_CTX_set_default_passwd_cb(ssl, [](char*, int, int, void*) { return 0; });
  ERR_clear_error();
  if (SSL_CTX_use_certificate_chain_file(ssl, tls.certificate.c_str()) != 1) {
    return FileFault(tls.certificate, "no certificate in PEM can be read from it");
  }
  if (SSL_CTX_use_PrivateKey_file(ssl, tls.key.c_str(), SSL_FILETYPE_PEM) != 1) {
    return FileFault(tls.key, "no key of the certificate, in PEM, can be read from it");
  }
  if (SSL_CTX_load_verify_file(ssl, tls.authority.c_str()) != 1) {
    return FileFault(tls.authority, "no authority's certificate in PEM can be read from it");
  }
  return context;
}

}  // namespace sluice
