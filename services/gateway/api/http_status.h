// HTTP status code of an absl::Status.
#pragma once

#include "absl/status/status.h"
#include "services/gateway/http/message.h"

namespace sluice::gateway {

int HttpStatus(const absl::Status& status);
// The header Retry-After, where coming again makes sense: when the server said, or in a second.
void AddRetryAfter(http::Response& response, const absl::Status& status);

}  // namespace sluice::gateway
