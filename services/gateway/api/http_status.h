// HTTP status code of an absl::Status.
#pragma once

#include "absl/status/status.h"
#include "services/gateway/http/message.h"

namespace sluice::gateway {

// RESOURCE_EXHAUSTED is 429, and 400 where it has a reason (services/messages/error_reason.h): what the
// request itself takes is refused again.
int HttpStatus(const absl::Status& status);
// The header Retry-After, where coming again makes sense: when the server said, or in a second.
void AddRetryAfter(http::Response& response, const absl::Status& status);

}  // namespace sluice::gateway
