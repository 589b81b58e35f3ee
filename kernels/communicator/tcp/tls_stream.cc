#include "kernels/communicator/tcp/tls_stream.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/check.h"
#include "kernels/communicator/tcp/socket_bio.h"

namespace sluice {
namespace {

constexpr std::size_t kRecordBytes = SSL3_RT_MAX_PLAIN_LENGTH;

class TlsStream final : public TcpStream {
 public:
  TlsStream(Socket socket, std::shared_ptr<const TlsContext> context, TlsEnd end);
  ~TlsStream() override { SSL_free(ssl_); }

  absl::StatusOr<bool> Handshake() override;
  absl::StatusOr<std::size_t> Write(absl::Span<const std::byte> first,
                                    absl::Span<const std::byte> second) override;
  absl::StatusOr<std::size_t> Read(absl::Span<std::byte> first,
                                   absl::Span<std::byte> second) override;
  short awaited_events() const override { return awaited_events_; }
  int fd() const override { return socket_.fd(); }

 private:
  // OpenSSL's callback for every certificate of the peer's chain, the peer's own last.
  static int VerifyCertificate(int is_valid, X509_STORE_CTX* store);
  absl::Status CheckPeer(X509* certificate) const;

  // One record's worth of the two spans as one piece.
  absl::Span<const std::byte> NextRecord(absl::Span<const std::byte> first,
                                         absl::Span<const std::byte> second);
  void ChangeKeyWhenDue();
  // Why an operation of OpenSSL's did not go on: OK where the peer has to act first.
  absl::Status Blocked(int result);
  absl::Status Lost() const;

  const Socket socket_;
  const std::shared_ptr<const TlsContext> context_;
  SocketBioState bio_;
  SSL* const ssl_;
  absl::Status refusal_;  // what is wrong with the peer's certificate
  short awaited_events_ = 0;
  std::uint64_t records_with_this_key_ = 0;
  std::array<std::byte, kRecordBytes> record_;
};

std::vector<std::string> NamesOfKind(const GENERAL_NAMES* all, int kind) {
  std::vector<std::string> names;
  for (int i = 0; all != nullptr && i < sk_GENERAL_NAME_num(all); ++i) {
    int found = 0;
    const void* const value = GENERAL_NAME_get0_value(sk_GENERAL_NAME_value(all, i), &found);
    if (found != kind) continue;
    const auto* const text = static_cast<const ASN1_STRING*>(value);
    names.emplace_back(reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
                       static_cast<std::size_t>(ASN1_STRING_length(text)));
  }
  return names;
}

TlsStream::TlsStream(Socket socket, std::shared_ptr<const TlsContext> context, TlsEnd end)
    : socket_(std::move(socket)), context_(std::move(context)), ssl_(SSL_new(context_->ssl())) {
  SLUICE_CHECK(ssl_ != nullptr);
  bio_.fd = socket_.fd();
  BIO* const bio = MakeSocketBio(&bio_);
  SSL_set_bio(ssl_, bio, bio);
  SSL_set_app_data(ssl_, this);
  SSL_set_verify(ssl_, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, VerifyCertificate);
  end == TlsEnd::kDialled ? SSL_set_connect_state(ssl_) : SSL_set_accept_state(ssl_);
}

int TlsStream::VerifyCertificate(int is_valid, X509_STORE_CTX* store) {
  const void* const ssl = X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx());
  auto& self = *static_cast<TlsStream*>(SSL_get_app_data(static_cast<const SSL*>(ssl)));
  if (is_valid == 0) {
    self.refusal_ = absl::UnavailableError(
        absl::StrCat("its certificate is refused: ",
                     X509_verify_cert_error_string(X509_STORE_CTX_get_error(store))));
    return 0;
  }
  if (X509_STORE_CTX_get_error_depth(store) != 0) return 1;
  self.refusal_ = self.CheckPeer(X509_STORE_CTX_get_current_cert(store));
  if (self.refusal_.ok()) return 1;
  X509_STORE_CTX_set_error(store, X509_V_ERR_APPLICATION_VERIFICATION);
  return 0;
}

absl::Status TlsStream::CheckPeer(X509* certificate) const {
  auto* const all = static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr));
  const CertificateNames names = {.dns_names = NamesOfKind(all, GEN_DNS),
                                  .uris = NamesOfKind(all, GEN_URI)};
  GENERAL_NAMES_free(all);
  const absl::Status checked = context_->tls().check_peer(names);
  if (checked.ok()) return checked;
  return absl::UnavailableError(absl::StrCat("its certificate is refused: ", checked.message()));
}

absl::StatusOr<bool> TlsStream::Handshake() {
  ERR_clear_error();
  const int result = SSL_do_handshake(ssl_);
  if (result == 1) return true;
  if (absl::Status blocked = Blocked(result); !blocked.ok()) return blocked;
  return false;
}

absl::StatusOr<std::size_t> TlsStream::Write(absl::Span<const std::byte> first,
                                             absl::Span<const std::byte> second) {
  const std::size_t wanted = first.size() + second.size();
  std::size_t moved = 0;
  while (moved < wanted) {
    const absl::Span<const std::byte> record = NextRecord(first, second);
    ChangeKeyWhenDue();
    ERR_clear_error();
    const int count = SSL_write(ssl_, record.data(), static_cast<int>(record.size()));
    if (count <= 0) {
      if (absl::Status blocked = Blocked(count); !blocked.ok()) return blocked;
      break;
    }
    ++records_with_this_key_;
    const auto written = static_cast<std::size_t>(count);
    moved += written;
    const std::size_t of_first = std::min(written, first.size());
    first.remove_prefix(of_first);
    second.remove_prefix(written - of_first);
  }
  return moved;
}

// A record costs its peer a fixed time, so that a header travels with the beginning of its body.
absl::Span<const std::byte> TlsStream::NextRecord(absl::Span<const std::byte> first,
                                                  absl::Span<const std::byte> second) {
  if (first.empty()) return second.first(std::min(second.size(), kRecordBytes));
  const std::size_t of_first = std::min(first.size(), kRecordBytes);
  const std::size_t of_second = std::min(second.size(), kRecordBytes - of_first);
  std::memcpy(record_.data(), first.data(), of_first);
  if (of_second > 0) std::memcpy(record_.data() + of_first, second.data(), of_second);
  return absl::MakeConstSpan(record_).first(of_first + of_second);
}

// Not within a record of which a part is sent already.
void TlsStream::ChangeKeyWhenDue() {
  if (records_with_this_key_ < context_->tls().records_per_key || SSL_want_write(ssl_)) return;
  SSL_key_update(ssl_, SSL_KEY_UPDATE_NOT_REQUESTED);
  records_with_this_key_ = 0;
}

absl::StatusOr<std::size_t> TlsStream::Read(absl::Span<std::byte> first,
                                            absl::Span<std::byte> second) {
  std::size_t moved = 0;
  for (absl::Span<std::byte> into : {first, second}) {
    while (!into.empty()) {
      ERR_clear_error();
      std::size_t count = 0;
      const int result = SSL_read_ex(ssl_, into.data(), into.size(), &count);
      if (result != 1) {
        if (absl::Status blocked = Blocked(result); !blocked.ok()) return blocked;
        return moved;
      }
      moved += count;
      into.remove_prefix(count);
    }
  }
  return moved;
}

absl::Status TlsStream::Blocked(int result) {
  switch (SSL_get_error(ssl_, result)) {
    case SSL_ERROR_WANT_READ:
      awaited_events_ = POLLIN;
      return absl::OkStatus();
    case SSL_ERROR_WANT_WRITE:
      awaited_events_ = POLLOUT;
      return absl::OkStatus();
    default:
      return Lost();
  }
}

absl::Status TlsStream::Lost() const {
  if (!refusal_.ok()) return refusal_;
  if (bio_.closed) return absl::UnavailableError("it has closed its connection");
  if (bio_.error != 0) {
    return absl::UnavailableError(std::generic_category().message(bio_.error));
  }
  const char* const reason = ERR_reason_error_string(ERR_peek_last_error());
  return absl::UnavailableError(
      absl::StrCat("TLS: ", reason != nullptr ? reason : "the connection was shut down"));
}

}  // namespace

std::unique_ptr<TcpStream> MakeTlsStream(Socket socket, std::shared_ptr<const TlsContext> context,
                                         TlsEnd end) {
  return std::make_unique<TlsStream>(std::move(socket), std::move(context), end);
}

}  // namespace sluice
