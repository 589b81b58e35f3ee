#include "kernels/communicator/tcp/rank_hello.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <sys/random.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "kernels/check.h"
#include "kernels/communicator/tcp/byte_order.h"

namespace sluice {
namespace {

constexpr absl::string_view kFormat = "sluice-ranks/2";
constexpr char kMagic[] = "slranks2";  // without its end
constexpr std::size_t kMagicBytes = sizeof(kMagic) - 1;

template <std::size_t size>
absl::string_view AsText(const std::array<std::byte, size>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), size};
}

bool IsHexDigit(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); }

// As many bytes as `into` has.
bool ParseHex(absl::string_view text, void* into, std::size_t size) {
  if (text.size() != 2 * size || !std::all_of(text.begin(), text.end(), IsHexDigit)) return false;
  const std::string bytes = absl::HexStringToBytes(text);
  std::memcpy(into, bytes.data(), size);
  return true;
}

bool ParseEpoch(absl::string_view text, std::uint64_t* into) {
  return absl::SimpleAtoi(text, into) && absl::StrCat(*into) == text;
}

// Only what Encode writes: no sign, blank or leading zero.
bool ParseNumber(absl::string_view text, int most, int* into) {
  return absl::SimpleAtoi(text, into) && *into >= 1 && *into <= most && absl::StrCat(*into) == text;
}

}  // namespace

RankToken NewRankToken() {
  RankToken token;
  SLUICE_CHECK(getrandom(token.data(), token.size(), 0) == static_cast<ssize_t>(token.size()));
  return token;
}

bool SameToken(const RankToken& a, const RankToken& b) {
  return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

WiringProof ProofOf(const WiringIdentity& wiring, const RankToken& token) {
  std::array<std::byte, 8> epoch{};
  StoreLittleEndian(wiring.epoch, epoch.data());
  const std::string proven = absl::StrCat(
      kFormat, AsText(wiring.nonce), AsText(epoch),
      absl::string_view(wiring.model_fingerprint.data(), wiring.model_fingerprint.size()),
      AsText(token));
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
  SHA256(reinterpret_cast<const unsigned char*>(proven.data()), proven.size(), digest.data());
  WiringProof proof;
  std::memcpy(proof.data(), digest.data(), proof.size());
  return proof;
}

WiringClaim ClaimOf(const WiringIdentity& wiring, const RankToken& token) {
  return {.epoch = wiring.epoch,
          .model_fingerprint = wiring.model_fingerprint,
          .proof = ProofOf(wiring, token)};
}

absl::Status CheckClaim(const WiringClaim& theirs, const RankToken& token,
                        const WiringIdentity& ours) {
  const WiringProof expected = ProofOf(ours, token);
  const bool proven = CRYPTO_memcmp(theirs.proof.data(), expected.data(), expected.size()) == 0;
  WiringIdentity claimed = {
      .nonce = ours.nonce, .epoch = theirs.epoch, .model_fingerprint = theirs.model_fingerprint};
  if (!proven) claimed.nonce[0] = ~claimed.nonce[0];
  return CheckSameWiring(claimed, ours);
}

std::string Encode(const RankAddress& address) {
  const auto& fingerprint = address.wiring.model_fingerprint;
  return absl::StrCat(kFormat, " ", address.tls ? "tls" : "plain", " ", address.size, " ",
                      address.host, " ", address.port, " ",
                      absl::BytesToHexString(AsText(address.token)), " ", address.wiring.epoch, " ",
                      absl::BytesToHexString({fingerprint.data(), fingerprint.size()}), " ",
                      absl::BytesToHexString(AsText(address.wiring.proof)));
}

absl::StatusOr<RankAddress> ParseRankAddress(const std::string& text) {
  const absl::Status fault = absl::InvalidArgumentError("not the address of a rank");
  const std::vector<absl::string_view> fields = absl::StrSplit(text, ' ');
  if (fields.size() != 9 || fields[0] != kFormat) return fault;
  if (fields[1] != "tls" && fields[1] != "plain") return fault;
  RankAddress address;
  address.tls = fields[1] == "tls";
  int port = 0;
  if (!ParseNumber(fields[2], std::numeric_limits<int>::max(), &address.size) ||
      !ParseNumber(fields[4], std::numeric_limits<std::uint16_t>::max(), &port) ||
      !ParseHex(fields[5], address.token.data(), address.token.size()) ||
      !ParseEpoch(fields[6], &address.wiring.epoch) ||
      !ParseHex(fields[7], address.wiring.model_fingerprint.data(),
                address.wiring.model_fingerprint.size()) ||
      !ParseHex(fields[8], address.wiring.proof.data(), address.wiring.proof.size())) {
    return fault;
  }
  address.host = std::string(fields[3]);
  address.port = static_cast<std::uint16_t>(port);
  return address;
}

RankHelloBytes Encode(const RankHello& hello) {
  RankHelloBytes bytes;
  static_assert(kMagicBytes + sizeof(RankToken) + 2 * sizeof(std::uint32_t) +
                    sizeof(std::uint64_t) + WiringIdentity::kMaxFingerprintBytes +
                    sizeof(WiringProof) ==
                kRankHelloBytes);
  std::byte* next = bytes.data();
  std::memcpy(next, kMagic, kMagicBytes);
  next += kMagicBytes;
  std::memcpy(next, hello.token.data(), hello.token.size());
  next += hello.token.size();
  StoreLittleEndian(hello.rank, next);
  next += sizeof(hello.rank);
  StoreLittleEndian(hello.size, next);
  next += sizeof(hello.size);
  StoreLittleEndian(hello.wiring.epoch, next);
  next += sizeof(hello.wiring.epoch);
  std::memcpy(next, hello.wiring.model_fingerprint.data(), hello.wiring.model_fingerprint.size());
  next += hello.wiring.model_fingerprint.size();
  std::memcpy(next, hello.wiring.proof.data(), hello.wiring.proof.size());
  return bytes;
}

absl::StatusOr<RankHello> ParseRankHello(const RankHelloBytes& bytes) {
  const std::byte* next = bytes.data();
  if (std::memcmp(next, kMagic, kMagicBytes) != 0) {
    return absl::InvalidArgumentError("what it says is not a rank's hello");
  }
  next += kMagicBytes;
  RankHello hello;
  std::memcpy(hello.token.data(), next, hello.token.size());
  next += hello.token.size();
  hello.rank = LoadLittleEndian<std::uint32_t>(next);
  next += sizeof(hello.rank);
  hello.size = LoadLittleEndian<std::uint32_t>(next);
  next += sizeof(hello.size);
  hello.wiring.epoch = LoadLittleEndian<std::uint64_t>(next);
  next += sizeof(hello.wiring.epoch);
  std::memcpy(hello.wiring.model_fingerprint.data(), next, hello.wiring.model_fingerprint.size());
  next += hello.wiring.model_fingerprint.size();
  std::memcpy(hello.wiring.proof.data(), next, hello.wiring.proof.size());
  return hello;
}

}  // namespace sluice
