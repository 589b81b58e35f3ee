#include "services/gateway/api/http_status.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "absl/strings/str_cat.h"
#include "services/messages/error_reason.h"
#include "services/messages/retry_info.h"

namespace sluice::gateway {

int HttpStatus(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return 200;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kUnimplemented:  // 501 would have clients ask again for what is not here
      return 400;
    case absl::StatusCode::kUnauthenticated:
      return 401;
    case absl::StatusCode::kPermissionDenied:
      return 403;
    case absl::StatusCode::kNotFound:
      return 404;
    case absl::StatusCode::kResourceExhausted:
      // Clients send again what was answered with 429.
      return ErrorReason(status).has_value() ? 400 : 429;
    case absl::StatusCode::kCancelled:
      return 499;
    case absl::StatusCode::kUnavailable:
      return 503;
    case absl::StatusCode::kDeadlineExceeded:
      return 504;
    default:
      return 500;
  }
}

void AddRetryAfter(http::Response& response, const absl::Status& status) {
  const std::optional<absl::Duration> said = RetryDelay(status);
  if (absl::IsResourceExhausted(status) && ErrorReason(status).has_value()) return;
  if (!said.has_value() && !absl::IsUnavailable(status) && !absl::IsResourceExhausted(status)) {
    return;
  }
  // Whole seconds, as the header has them.
  const double seconds = std::ceil(absl::ToDoubleSeconds(said.value_or(absl::Seconds(1))));
  response.headers.emplace_back("retry-after",
                                absl::StrCat(std::max(1, static_cast<int>(seconds))));
}

}  // namespace sluice::gateway
