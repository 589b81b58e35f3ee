// Streams over TLS 1.3 in which both ends show certificates. No session is resumed.
#pragma once

#include <openssl/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/communicator/tcp/socket_address.h"
#include "kernels/communicator/tcp/tcp_stream.h"

namespace sluice {

// Who a certificate's holder is, by its subjectAltName.
struct CertificateNames {
  std::vector<std::string> dns_names;
  std::vector<std::string> uris;
};

struct RankTls {
  // Paths of PEM files: this rank's certificate (with its chain) and key, and whose certificates
  // are accepted from peers.
  std::string certificate;
  std::string key;
  std::string authority;
  // Not OK where the holder of such a certificate, signed by the authority and valid today, is no
  // rank of ours. Called within handshakes, on the thread of the stream.
  std::function<absl::Status(const CertificateNames&)> check_peer;
  // After so many records (of up to 16 KiB) a sender takes a new key. AES-GCM wants one within
  // 2^24.5 (RFC 8446, 5.5).
  std::uint64_t records_per_key = std::uint64_t{1} << 22;
};

// The files as they are at one moment. Immutable and thread-safe.
class TlsContext {
 public:
  // FAILED_PRECONDITION where a file can't be read, holds no PEM of its kind, or the key is not
  // the certificate's.
  static absl::StatusOr<std::shared_ptr<const TlsContext>> Load(const RankTls& tls);

  TlsContext(const TlsContext&) = delete;
  ~TlsContext();

  SSL_CTX* ssl() const { return ssl_; }
  const RankTls& tls() const { return tls_; }

 private:
  explicit TlsContext(const RankTls& tls);

  const RankTls tls_;
  SSL_CTX* const ssl_;
};

// The end that dialled greets first.
enum class TlsEnd { kDialled, kAccepted };

// The socket is non-blocking. Handshake() says what is wrong with the peer's certificate, or what
// the peer said of ours.
std::unique_ptr<TcpStream> MakeTlsStream(Socket socket, std::shared_ptr<const TlsContext> context,
                                         TlsEnd end);

}  // namespace sluice
