#include "services/messages/wiring_message.h"

#include <cstring>

#include "absl/strings/str_cat.h"

namespace sluice {

absl::StatusOr<WiringIdentity> ParseWiring(const std::string& nonce, uint64_t epoch,
                                           const std::string& model_fingerprint) {
  WiringNonce bytes;
  if (nonce.size() != bytes.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("wiring_nonce has ", nonce.size(), " bytes; accepted: ", bytes.size()));
  }
  std::memcpy(bytes.data(), nonce.data(), bytes.size());
  return WiringIdentity::Make(bytes, epoch, model_fingerprint);
}

}  // namespace sluice
