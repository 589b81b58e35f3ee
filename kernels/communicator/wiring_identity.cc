#include "kernels/communicator/wiring_identity.h"

#include <sys/random.h>

#include <cstring>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/check.h"

namespace sluice {

WiringNonce DrawWiringNonce() {
  WiringNonce nonce;
  SLUICE_CHECK(getrandom(nonce.data(), nonce.size(), 0) == static_cast<ssize_t>(nonce.size()));
  return nonce;
}

absl::StatusOr<WiringIdentity> WiringIdentity::Make(const WiringNonce& nonce, std::uint64_t epoch,
                                                    absl::string_view model_fingerprint) {
  if (model_fingerprint.size() > kMaxFingerprintBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a model fingerprint of ", model_fingerprint.size(),
                     " bytes; accepted: at most ", kMaxFingerprintBytes));
  }
  WiringIdentity wiring{.nonce = nonce, .epoch = epoch};
  std::memcpy(wiring.model_fingerprint.data(), model_fingerprint.data(), model_fingerprint.size());
  return wiring;
}

absl::string_view WiringIdentity::fingerprint() const {
  return {model_fingerprint.data(), strnlen(model_fingerprint.data(), model_fingerprint.size())};
}

bool IsSameNonce(const WiringNonce& a, const WiringNonce& b) {
  std::byte difference{};
  for (std::size_t i = 0; i < a.size(); ++i) difference |= a[i] ^ b[i];
  return difference == std::byte{};
}

absl::Status CheckSameWiring(const WiringIdentity& theirs, const WiringIdentity& ours) {
  std::vector<std::string> differences;
  if (theirs.fingerprint() != ours.fingerprint()) {
    differences.push_back(absl::StrCat("its model fingerprint is ",
                                       absl::CHexEscape(theirs.fingerprint()), ", expected ",
                                       ours.fingerprint()));
  }
  if (theirs.epoch != ours.epoch) {
    differences.push_back(
        absl::StrCat("it is wired into epoch ", theirs.epoch, ", expected epoch ", ours.epoch));
  }
  if (differences.empty() && !IsSameNonce(theirs.nonce, ours.nonce)) {
    differences.emplace_back(
        "it belongs to another wiring of this model and epoch: the wiring nonces differ");
  }
  if (differences.empty()) return absl::OkStatus();
  return absl::AbortedError(absl::StrJoin(differences, "; "));
}

}  // namespace sluice
