// The one place where absl and gRPC statuses are converted. Thread-safe.
#pragma once

#include <grpcpp/support/status.h>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace sluice {

// Codes have the same numbers on both sides; messages are kept, and payloads are the details of the
// google.rpc.Status that gRPC carries beside them.
grpc::Status ToGrpc(const absl::Status& status);
absl::Status FromGrpc(const grpc::Status& status);

// The same status with "context: " before its message.
absl::Status Annotate(const absl::Status& status, absl::string_view context);

}  // namespace sluice
