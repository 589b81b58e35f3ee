// Identity of a caller. Pure functions.
#pragma once

#include <grpcpp/server_context.h>

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "services/common/trace_context.h"

namespace sluice {

// The tenant of an unauthenticated call: what its metadata `sluice-tenant`
// says, else the identity in the peer's certificate, else the host it calls from. INVALID_ARGUMENT
// where the metadata is empty, longer than 128 bytes or there more than once.
absl::StatusOr<std::string> TenantOf(const grpc::ServerContextBase& context);

// The same of a call that names its tenant otherwise, over the connection of `context`; empty: it
// does not.
absl::StatusOr<std::string> TenantOf(absl::string_view named,
                                     const grpc::ServerContextBase& context);

// The trace that the call is a part of, as its metadata `traceparent` and `tracestate` say; nothing
// where they say none.
std::optional<TraceContext> TraceOf(const grpc::ServerContextBase& context);

// The host in a peer as gRPC names it: "ipv4:10.0.0.7:5123" is "10.0.0.7". Others stay as they are.
std::string HostOfPeer(absl::string_view peer);

}  // namespace sluice
