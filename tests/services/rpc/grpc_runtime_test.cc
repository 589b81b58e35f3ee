#include "services/rpc/grpc_runtime.h"

#include <gmock/gmock.h>
#include <grpc/support/log.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace sluice {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::internal::CaptureStderr;
using ::testing::internal::GetCapturedStderr;

std::string SaidOf(const char* message) {
  CaptureStderr();
  gpr_log(GPR_ERROR, "%s", message);
  return GetCapturedStderr();
}

// Where somebody asked to hear more, gRPC speaks while it begins. The first test, because it begins
// once.
TEST(GrpcRuntimeTest, LogsFromItsBeginningInLinesOfOurs) {
  setenv("GRPC_VERBOSITY", "INFO", /*overwrite=*/1);
  CaptureStderr();
  PrepareGrpc();
  const std::string said = GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr(" I grpc message text="));
  EXPECT_THAT(said, Not(ContainsRegex("(^|\n)[DIE][0-9]+ ")));
}

TEST(GrpcRuntimeTest, LogsWhatGrpcSaysInLinesOfOursAndNoneTwice) {
  PrepareGrpc();
  EXPECT_THAT(SaidOf("handshake failed"), HasSubstr(" W grpc message text=\"handshake failed\"\n"));
  EXPECT_THAT(SaidOf("handshake failed"), IsEmpty());
  EXPECT_THAT(SaidOf("another"), HasSubstr("text=another\n"));
}

TEST(GrpcRuntimeTest, LogsReasonsThatTakeTurnsOnceEach) {
  PrepareGrpc();
  EXPECT_THAT(SaidOf("ipv4:10.0.0.1:4711: refused at 1700000000.25"), HasSubstr("4711"));
  EXPECT_THAT(SaidOf("ipv6:[::1]:80: refused"), HasSubstr("ipv6"));
  EXPECT_THAT(SaidOf("ipv4:10.0.0.7:9: refused at 1700000002.75"), IsEmpty());
  EXPECT_THAT(SaidOf("ipv6:[::1]:80: refused"), IsEmpty());
}

TEST(GrpcRuntimeTest, LeavesOutWhatOthersSayInASentence) {
  PrepareGrpc();
  EXPECT_THAT(SaidOf("UNKNOWN:No address added out of total 1 resolved for '127.0.0.1:1'"),
              IsEmpty());
  EXPECT_THAT(SaidOf("No match found for server name: alpha"), IsEmpty());
  // A client's words.
  EXPECT_THAT(SaidOf("Error parsing metadata: error=invalid value key=:scheme value=secret"),
              IsEmpty());
}

}  // namespace
}  // namespace sluice
