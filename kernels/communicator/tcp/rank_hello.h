// What ranks tell each other before they trust each other: how to reach one (by way of the
// RendezvousStore), and the first bytes of a connection. Parsing takes any bytes.
//
// A rank's token is known to nobody but the ranks of its group, by way of the store: whoever
// repeats it has been let into that store. Over TLS a certificate has to agree as well.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace sluice {

using RankToken = std::array<std::byte, 16>;

// From the kernel's random numbers.
RankToken NewRankToken();
// Takes the same time wherever they differ.
bool SameToken(const RankToken& a, const RankToken& b);

// "sluice-ranks/1 tls 4 10.0.0.1 4711 <token, 32 hexadecimal digits>"
struct RankAddress {
  bool tls = false;
  int size = 0;  // of the group
  std::string host;
  std::uint16_t port = 0;
  RankToken token{};
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
};

inline constexpr std::size_t kRankHelloBytes = 32;
using RankHelloBytes = std::array<std::byte, kRankHelloBytes>;

RankHelloBytes Encode(const RankHello& hello);
// INVALID_ARGUMENT where the bytes do not begin as a hello does.
absl::StatusOr<RankHello> ParseRankHello(const RankHelloBytes& bytes);

}  // namespace sluice
