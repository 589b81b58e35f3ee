#include "kernels/communicator/local_communicator.h"

#include <gtest/gtest.h>

#include "tests/kernels/communicator_calls.h"

namespace sluice::testing {
namespace {

TEST(LocalCommunicatorTest, IsRankZeroOfOneAndCopies) {
  const auto communicator = MakeLocalCommunicator();
  EXPECT_EQ(communicator->rank(), 0);
  EXPECT_EQ(communicator->size(), 1);
  const absl::Status made = MakeMixedCalls(*communicator, /*seed=*/1, 200, /*max_bytes=*/10'000);
  EXPECT_TRUE(made.ok()) << made;
}

TEST(LocalCommunicatorTest, FailsWithTheFirstReasonOnceAborted) {
  const auto communicator = MakeLocalCommunicator();
  communicator->Abort(absl::AbortedError("first"));
  communicator->Abort(absl::AbortedError("second"));
  for (const CallKind kind : {CallKind::kBroadcast, CallKind::kAllGather, CallKind::kAllToAll}) {
    EXPECT_EQ(MakeCheckedCall(*communicator, {.kind = kind, .bytes = 5}),
              absl::AbortedError("first"));
  }
}

}  // namespace
}  // namespace sluice::testing
