// When clients over HTTP are told to come again.
#include "services/gateway/api/http_status.h"

#include <gtest/gtest.h>

#include <string>

#include "services/common/status.h"
#include "services/messages/error_reason.h"
#include "services/messages/retry_info.h"
#include "services/work/work_owner.h"

namespace sluice::gateway {
namespace {

std::string RetryAfter(const absl::Status& status) {
  http::Response response;
  AddRetryAfter(response, status);
  for (const auto& [name, value] : response.headers) {
    if (name == "retry-after") return value;
  }
  return "";
}

TEST(HttpStatus, ComesAgainWhenTheServerSaysSoInWholeSeconds) {
  const absl::Status refused =
      WithRetryDelay(absl::ResourceExhaustedError("full"), absl::Milliseconds(2100));
  EXPECT_EQ(RetryAfter(FromGrpc(ToGrpc(refused))), "3");
  EXPECT_EQ(HttpStatus(refused), 429);
}

TEST(HttpStatus, ComesAgainInASecondWhereTheServerSaysNothing) {
  EXPECT_EQ(RetryAfter(absl::ResourceExhaustedError("full")), "1");
  EXPECT_EQ(RetryAfter(absl::UnavailableError("gone")), "1");
}

TEST(HttpStatus, DoesNotComeAgainWhereThatWouldChangeNothing) {
  EXPECT_EQ(RetryAfter(absl::InvalidArgumentError("max_tokens is 0")), "");
  for (const absl::Status& status :
       {TooMuchWork(absl::Seconds(31), absl::Seconds(30)),
        IfExhaustedTooLarge(absl::ResourceExhaustedError("too many states"))}) {
    EXPECT_EQ(HttpStatus(FromGrpc(ToGrpc(status))), 400);
    EXPECT_EQ(RetryAfter(FromGrpc(ToGrpc(status))), "");
  }
}

}  // namespace
}  // namespace sluice::gateway
