// The identity of a wiring (kernels/communicator/wiring_identity.h) to and from the messages that
// carry it, and its check. Thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/communicator/wiring_identity.h"

namespace sluice {

// INVALID_ARGUMENT where the nonce has not 16 bytes, or the fingerprint too many.
absl::StatusOr<WiringIdentity> ParseWiring(const std::string& nonce, uint64_t epoch,
                                           const std::string& model_fingerprint);

// Message has epoch, wiring_nonce and model_fingerprint, as StageOpen in
// protos/sluice/v1/stage.proto.

template <class Message>
absl::StatusOr<WiringIdentity> WiringOf(const Message& message) {
  return ParseWiring(message.wiring_nonce(), message.epoch(), message.model_fingerprint());
}

template <class Message>
void SetWiring(const WiringIdentity& wiring, Message& message) {
  message.set_epoch(wiring.epoch);
  message.set_wiring_nonce(reinterpret_cast<const char*>(wiring.nonce.data()), wiring.nonce.size());
  message.set_model_fingerprint(std::string(wiring.fingerprint()));
}

// OK where the peer that sent `message` belongs to `ours`; ABORTED naming what differs, or
// INVALID_ARGUMENT as ParseWiring().
template <class Message>
absl::Status CheckWiring(const Message& message, const WiringIdentity& ours) {
  const absl::StatusOr<WiringIdentity> theirs = WiringOf(message);
  return theirs.ok() ? CheckSameWiring(*theirs, ours) : theirs.status();
}

// What a stage does with an Open: the wiring that it belongs to from now on. FAILED_PRECONDITION
// where it serves another model, INVALID_ARGUMENT as ParseWiring().
template <class Open>
absl::StatusOr<WiringIdentity> WiringToOpen(const Open& open, const std::string& served_model) {
  if (open.model_fingerprint() != served_model) {
    return absl::FailedPreconditionError("model fingerprint " + served_model + ", expected " +
                                         open.model_fingerprint());
  }
  return WiringOf(open);
}

}  // namespace sluice
