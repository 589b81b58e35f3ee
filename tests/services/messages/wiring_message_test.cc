#include "services/messages/wiring_message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/v1/stage.pb.h"
#include "tests/kernels/testing/test_wiring.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;
using testing::TestWiring;

TEST(WiringMessage, ComesBackFromItsMessage) {
  v1::StageOpen open;
  SetWiring(TestWiring(7), open);
  EXPECT_EQ(open.wiring_nonce().size(), 16u);
  EXPECT_EQ(CheckWiring(open, TestWiring(7)), absl::OkStatus());
  EXPECT_EQ(CheckWiring(open, TestWiring(7, 2)).code(), absl::StatusCode::kAborted);
}

// Else a peer without a nonce would belong to every wiring.
TEST(WiringMessage, NeedsANonce) {
  for (const size_t size : {0, 15, 17}) {
    v1::StageOpen open;
    SetWiring(TestWiring(), open);
    open.set_wiring_nonce(std::string(size, 'x'));
    const absl::Status status = CheckWiring(open, TestWiring());
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("accepted: 16"));
  }
}

TEST(WiringMessage, IsNotOpenedForAnotherModel) {
  v1::StageOpen open;
  SetWiring(TestWiring(), open);
  EXPECT_TRUE(WiringToOpen(open, "test-model").ok());
  const absl::Status status = WiringToOpen(open, "mine").status();
  EXPECT_EQ(status, absl::FailedPreconditionError("model fingerprint mine, expected test-model"));
}

}  // namespace
}  // namespace sluice
