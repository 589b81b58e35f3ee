// One question to a server's grpc.health.v1. Thread-safe.
#pragma once

#include <grpcpp/channel.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace sluice {

// As the protocol numbers them.
enum class HealthState { kUnknown = 0, kServing = 1, kNotServing = 2, kServiceUnknown = 3 };

// "SERVING", "NOT_SERVING", ...
const char* Name(HealthState state);

// What the server says of `service`; empty: of itself as a whole. The server's status where it does
// not answer by `deadline`, NOT_FOUND where it has no such service.
absl::StatusOr<HealthState> CheckHealth(const std::shared_ptr<grpc::Channel>& channel,
                                        const std::string& service, absl::Time deadline);

}  // namespace sluice
