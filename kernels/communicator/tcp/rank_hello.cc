#include "kernels/communicator/tcp/rank_hello.h"

#include <openssl/crypto.h>
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

constexpr absl::string_view kFormat = "sluice-ranks/1";
constexpr char kMagic[] = "slranks1";  // without its end
constexpr std::size_t kMagicBytes = sizeof(kMagic) - 1;

absl::string_view AsText(const RankToken& token) {
  return {reinterpret_cast<const char*>(token.data()), token.size()};
}

bool IsHexDigit(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); }

bool ParseToken(absl::string_view text, RankToken* into) {
  if (text.size() != 2 * into->size() || !std::all_of(text.begin(), text.end(), IsHexDigit)) {
    return false;
  }
  const std::string bytes = absl::HexStringToBytes(text);
  std::memcpy(into->data(), bytes.data(), into->size());
  return true;
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

std::string Encode(const RankAddress& address) {
  return absl::StrCat(kFormat, " ", address.tls ? "tls" : "plain", " ", address.size, " ",
                      address.host, " ", address.port, " ",
                      absl::BytesToHexString(AsText(address.token)));
}

absl::StatusOr<RankAddress> ParseRankAddress(const std::string& text) {
  const absl::Status fault = absl::InvalidArgumentError("not the address of a rank");
  const std::vector<absl::string_view> fields = absl::StrSplit(text, ' ');
  if (fields.size() != 6 || fields[0] != kFormat) return fault;
  if (fields[1] != "tls" && fields[1] != "plain") return fault;
  RankAddress address;
  address.tls = fields[1] == "tls";
  int port = 0;
  if (!ParseNumber(fields[2], std::numeric_limits<int>::max(), &address.size) ||
      !ParseNumber(fields[4], std::numeric_limits<std::uint16_t>::max(), &port) ||
      !ParseToken(fields[5], &address.token)) {
    return fault;
  }
  address.host = std::string(fields[3]);
  address.port = static_cast<std::uint16_t>(port);
  return address;
}

RankHelloBytes Encode(const RankHello& hello) {
  RankHelloBytes bytes;
  std::byte* next = bytes.data();
  std::memcpy(next, kMagic, kMagicBytes);
  next += kMagicBytes;
  std::memcpy(next, hello.token.data(), hello.token.size());
  next += hello.token.size();
  StoreLittleEndian(hello.rank, next);
  StoreLittleEndian(hello.size, next + sizeof(hello.rank));
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
  hello.size = LoadLittleEndian<std::uint32_t>(next + sizeof(hello.rank));
  return hello;
}

}  // namespace sluice
