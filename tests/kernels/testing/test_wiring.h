// Identities of wirings for tests.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/communicator/wiring_identity.h"

namespace sluice::testing {

// Wirings with different numbers differ in their nonces alone.
inline WiringIdentity TestWiring(std::uint64_t epoch = 1, unsigned char number = 1) {
  WiringNonce nonce;
  nonce.fill(std::byte{number});
  return *WiringIdentity::Make(nonce, epoch, "test-model");
}

}  // namespace sluice::testing
