// The reason of a refusal, from the process that refuses to the client.
#include "services/messages/error_reason.h"

#include <gtest/gtest.h>

#include "absl/strings/cord.h"
#include "services/common/status.h"
#include "services/work/work_owner.h"

namespace sluice {
namespace {

TEST(ErrorReasonTest, IsSentWithTheStatus) {
  const absl::Status status = TooMuchWork(absl::Seconds(31), absl::Seconds(30));
  EXPECT_EQ(ErrorReason(status), kRequestWorkExceeded);
  const absl::Status received = Annotate(FromGrpc(ToGrpc(status)), "the tokenizer");
  EXPECT_EQ(ErrorReason(received), kRequestWorkExceeded);
}

TEST(ErrorReasonTest, TellsWhatIsTooLargeFromAServerThatIsBusy) {
  EXPECT_EQ(ErrorReason(absl::ResourceExhaustedError("full")), std::nullopt);
  EXPECT_EQ(ErrorReason(IfExhaustedTooLarge(absl::ResourceExhaustedError("too many states"))),
            kRequestTooLarge);
  EXPECT_EQ(ErrorReason(IfExhaustedTooLarge(absl::InvalidArgumentError("no regex"))), std::nullopt);
  EXPECT_EQ(ErrorReason(IfExhaustedTooLarge(TooMuchWork(absl::Seconds(2), absl::Seconds(1)))),
            kRequestWorkExceeded);
}

TEST(ErrorReasonTest, OthersReasonsAndWhatIsNoneAreNotRead) {
  absl::Status status = absl::ResourceExhaustedError("quota");
  constexpr char kType[] = "type.googleapis.com/google.rpc.ErrorInfo";
  for (const char* bytes : {"", "\xff", "\x0a\x01X", "\x0a\x01X\x12\x05other", "\x12\x06sluice"}) {
    status.SetPayload(kType, absl::Cord(bytes));
    EXPECT_EQ(ErrorReason(status), std::nullopt) << bytes;
  }
}

}  // namespace
}  // namespace sluice
