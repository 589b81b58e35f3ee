// One question to a server's grpc.health.v1. Thread-safe.
#pragma once

#include <grpcpp/channel.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "services/rpc/health_message.h"

namespace sluice {

// What the server says of `service`; empty: of itself as a whole. The server's status where it does
// not answer within `timeout`, NOT_FOUND where it has no such service.
absl::StatusOr<HealthState> CheckHealth(const std::shared_ptr<grpc::Channel>& channel,
                                        const std::string& service, absl::Duration timeout);

}  // namespace sluice
