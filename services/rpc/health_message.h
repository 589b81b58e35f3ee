// The messages of grpc.health.v1.Health/Check as bytes. They are so small that reading and writing
// them here spares generated code for a proto that Debian does not ship.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sluice {

inline constexpr char kHealthCheckMethod[] = "/grpc.health.v1.Health/Check";

// As the protocol numbers them.
enum class HealthState { kUnknown = 0, kServing = 1, kNotServing = 2, kServiceUnknown = 3 };

// "SERVING", "NOT_SERVING", ...
const char* Name(HealthState state);

// A question about `service`; about the server as a whole where it is empty. INVALID_ARGUMENT where
// the name has more than 127 bytes.
absl::StatusOr<grpc::ByteBuffer> HealthCheckRequest(absl::string_view service);

// INTERNAL where `response` is no answer of the protocol.
absl::StatusOr<HealthState> HealthStateIn(const grpc::ByteBuffer& response);

}  // namespace sluice
