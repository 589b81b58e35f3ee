// The client's token: the header Authorization, or x-api-key as Anthropic's clients send it.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "services/gateway/http/message.h"

namespace sluice::gateway {

// The metadata `authorization` of calls made for the request; empty where it shows none.
// UNAUTHENTICATED, never with the token, for what can be none: bytes that are not printable ASCII,
// more than 4096 of them, or a header that is there twice.
absl::StatusOr<std::string> AuthorizationOf(const http::Request& request);

// Whose request it is for what tenants share of a gateway: that of one token, or of a peer without.
std::string TenantOf(const http::Request& request);

}  // namespace sluice::gateway
