// Retry delay of a refused call: google.rpc.RetryInfo as a payload of statuses, which is sent with
// them (status.h). Thread-safe.
#pragma once

#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace sluice {

// `status` with the advice to come again after `delay` >= 0. REQUIRES: it is not OK.
absl::Status WithRetryDelay(absl::Status status, absl::Duration delay);

// Nothing where there is no such advice, or none that can be read.
std::optional<absl::Duration> RetryDelay(const absl::Status& status);

}  // namespace sluice
