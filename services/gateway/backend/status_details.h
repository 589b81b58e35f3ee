// Statuses of calls with what servers say beside the message.
#pragma once

#include <grpcpp/support/status.h>

#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace sluice::gateway {

// As FromGrpc, keeping a google.rpc.RetryInfo among the details.
absl::Status StatusFrom(const grpc::Status& status);
absl::Status WithRetryDelay(absl::Status status, absl::Duration delay);
// When the call may be made again, where the server says so.
std::optional<absl::Duration> RetryDelay(const absl::Status& status);

}  // namespace sluice::gateway
