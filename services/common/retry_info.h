// When a call that was refused may be made again: google.rpc.RetryInfo as a payload of statuses,
// which travels with them (status.h). Thread-safe.
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
