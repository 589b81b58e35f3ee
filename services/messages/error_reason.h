// Reason of a refused call that is always refused: google.rpc.ErrorInfo as a payload of statuses,
// which is sent with them (status.h). It tells RESOURCE_EXHAUSTED for what the request itself takes
// from that of a server which is busy. Thread-safe.
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace sluice {

// The request took more work than one request may (--max_request_work).
inline constexpr absl::string_view kRequestWorkExceeded = "REQUEST_WORK_EXCEEDED";
// The request holds more than one request may: bytes of text, states of a grammar, steps of a chat
// template.
inline constexpr absl::string_view kRequestTooLarge = "REQUEST_TOO_LARGE";

// `status` with the reason. REQUIRES: it is not OK.
absl::Status WithErrorReason(absl::Status status, absl::string_view reason);

// `status` with kRequestTooLarge where it is RESOURCE_EXHAUSTED and has no reason yet: for work that
// fails with that code only for what it was given.
absl::Status IfExhaustedTooLarge(absl::Status status);

// Nothing where there is none, or none of Sluice's that can be read.
std::optional<std::string> ErrorReason(const absl::Status& status);

}  // namespace sluice
