// What ranks tell each other before they trust each other: how to reach one (by way of the
// RendezvousStore), and the first bytes of a connection. Parsing takes any bytes.
//
// A rank's token is known to nobody but the ranks of its group, by way of the store: whoever
// repeats it has been let into that store. Over TLS a certificate has to agree as well. Model and
// epoch of the wiring are sent as they are, and of its nonce a proof: whoever listens where a rank
// should be does not learn it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/communicator/wiring_identity.h"

namespace sluice {

using RankToken = std::array<std::byte, 16>;

// From the kernel's random numbers.
RankToken NewRankToken();
// Takes the same time wherever they differ.
bool SameToken(const RankToken& a, const RankToken& b);

// What shows that the sender knows a wiring's nonce: the first bytes of the SHA-256 of nonce,
// epoch, model and the token that is sent with it.
using WiringProof = std::array<std::byte, 16>;

WiringProof ProofOf(const WiringIdentity& wiring, const RankToken& token);

// A wiring as a peer claims it.
struct WiringClaim {
  std::uint64_t epoch = 0;
  std::array<char, WiringIdentity::kMaxFingerprintBytes> model_fingerprint{};
  WiringProof proof{};
};

WiringClaim ClaimOf(const WiringIdentity& wiring, const RankToken& token);
// OK where a claim that came with this token is of `ours`; otherwise as CheckSameWiring.
absl::Status CheckClaim(const WiringClaim& theirs, const RankToken& token,
                        const WiringIdentity& ours);

// "sluice-ranks/2 tls 4 10.0.0.1 4711 <token> <epoch> <fingerprint> <proof>"; token, fingerprint
// and proof in hexadecimal digits, two for each byte.
struct RankAddress {
  bool tls = false;
  int size = 0;  // of the group
  std::string host;
  std::uint16_t port = 0;
  RankToken token{};
  WiringClaim wiring;  // with that token
};

std::string Encode(const RankAddress& address);
// INVALID_ARGUMENT where it is not what Encode gives.
absl::StatusOr<RankAddress> ParseRankAddress(const std::string& text);

// The dialling rank sends one first, with the token of the rank that it dialled; the other answers
// with the token of the first.
struct RankHello {
  RankToken token{};
  std::uint32_t rank = 0;  // the sender's
  std::uint32_t size = 0;  // of its group
  WiringClaim wiring;      // with that token
};

inline constexpr std::size_t kRankHelloBytes = 120;
using RankHelloBytes = std::array<std::byte, kRankHelloBytes>;

RankHelloBytes Encode(const RankHello& hello);
// INVALID_ARGUMENT where the bytes do not begin as a hello does.
absl::StatusOr<RankHello> ParseRankHello(const RankHelloBytes& bytes);

}  // namespace sluice
