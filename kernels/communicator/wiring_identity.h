// Identity of one wiring of a pipeline. Two processes compare it before either reads a byte of the
// other's: ranks in shared memory or over TCP, the streams between stages, and the memory that both
// map. Pipelines of one host may have equal epochs, stages and models; their nonces differ.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sluice {

// 128 random bits that the orchestrator draws for each wiring. They are a secret of the wiring's
// processes: never logged, and never sent to a peer that has not proven who it is.
using WiringNonce = std::array<std::byte, 16>;

// From the kernel's random numbers.
WiringNonce DrawWiringNonce();

// Plain data, so that it can lie in shared memory and pass over a unix socket as it is.
struct WiringIdentity {
  static constexpr std::size_t kMaxFingerprintBytes = 64;

  WiringNonce nonce{};
  std::uint64_t epoch = 0;
  std::array<char, kMaxFingerprintBytes> model_fingerprint{};  // zeroes behind it

  // INVALID_ARGUMENT where the fingerprint is longer than kMaxFingerprintBytes.
  static absl::StatusOr<WiringIdentity> Make(const WiringNonce& nonce, std::uint64_t epoch,
                                             absl::string_view model_fingerprint);
  absl::string_view fingerprint() const;
};

// Whether both are the same 128 bits. Takes the same time wherever they differ.
bool IsSameNonce(const WiringNonce& a, const WiringNonce& b);

// OK where both are one wiring. ABORTED otherwise, naming what differs: model, epoch, or the nonce,
// whose value is not shown.
absl::Status CheckSameWiring(const WiringIdentity& theirs, const WiringIdentity& ours);

}  // namespace sluice
