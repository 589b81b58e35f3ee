// Statuses on their way through gRPC.
#include "services/common/status.h"

#include <gtest/gtest.h>

#include "absl/strings/cord.h"
#include "services/messages/retry_info.h"

namespace sluice {
namespace {

TEST(Status, KeepsCodeMessageAndPayloadsThroughGrpc) {
  absl::Status status = absl::NotFoundError("no such thing");
  status.SetPayload("type.googleapis.com/some.Type", absl::Cord("\x01\x02"));
  EXPECT_EQ(FromGrpc(ToGrpc(status)), status);
  EXPECT_TRUE(FromGrpc(grpc::Status::OK).ok());
}

TEST(Status, HasNoDetailsWithoutPayloads) {
  EXPECT_EQ(ToGrpc(absl::NotFoundError("x")).error_details(), "");
}

// What other libraries read: google.rpc.Status with code 8, the message, and in an Any the
// RetryInfo with a Duration of 2.5 s.
TEST(Status, WritesTheDelayAsGoogleRpcStatus) {
  const absl::Status status =
      WithRetryDelay(absl::ResourceExhaustedError("full"), absl::Milliseconds(2500));
  const std::string type = "type.googleapis.com/google.rpc.RetryInfo";
  const std::string duration("\x08\x02\x10\x80\xca\xb5\xee\x01", 8);
  const std::string info = std::string("\x0a\x08") + duration;
  const std::string any = std::string("\x0a") + static_cast<char>(type.size()) + type + "\x12" +
                          static_cast<char>(info.size()) + info;
  const std::string details = ToGrpc(status).error_details();
  EXPECT_NE(details.find(any), std::string::npos);
  EXPECT_NE(details.find(std::string("\x12\x04") + "full"), std::string::npos);
  EXPECT_NE(details.find("\x08\x08"), std::string::npos);
  EXPECT_EQ(RetryDelay(FromGrpc(ToGrpc(status))), absl::Milliseconds(2500));
}

TEST(Status, ContextKeepsTheDelay) {
  const absl::Status status = Annotate(
      WithRetryDelay(absl::ResourceExhaustedError("full"), absl::Seconds(3)), "alpha:8700");
  EXPECT_EQ(status.message(), "alpha:8700: full");
  EXPECT_EQ(RetryDelay(status), absl::Seconds(3));
}

TEST(Status, DetailsThatCannotBeReadAreLeftOut) {
  for (const std::string& details : {std::string("\xff\xff"), std::string("\x1a\x02\xff\xff")}) {
    const grpc::Status status(grpc::StatusCode::RESOURCE_EXHAUSTED, "full", details);
    EXPECT_EQ(FromGrpc(status), absl::ResourceExhaustedError("full"));
  }
  EXPECT_EQ(RetryDelay(absl::ResourceExhaustedError("full")), std::nullopt);
}

}  // namespace
}  // namespace sluice
