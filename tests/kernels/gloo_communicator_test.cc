#include "kernels/communicator/gloo_communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/communicator/memory_rendezvous_store.h"

namespace sluice::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

absl::Status Join(const GlooOptions& options, RendezvousStore& store,
                  absl::Duration timeout = absl::Seconds(20)) {
  return JoinGloo(options, store, Deadline::After(timeout)).status();
}

TEST(JoinGlooTest, RefusesOptionsOutOfRange) {
  MemoryRendezvousStore store;
  for (const GlooOptions& options :
       {GlooOptions{.group = ""}, GlooOptions{.group = "g", .rank = 2, .size = 2},
        GlooOptions{.group = "g", .rank = -1}, GlooOptions{.group = "g", .size = 0},
        GlooOptions{.group = "g", .bind_address = "localhost"}}) {
    const absl::Status status = Join(options, store);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  }
}

TEST(JoinGlooTest, BindsBeyondLoopbackOnlyInATrustedNetwork) {
  MemoryRendezvousStore store;
  for (const GlooOptions& options : {GlooOptions{.group = "g", .bind_address = "0.0.0.0"},
                                     GlooOptions{.group = "g", .bind_address = "10.1.2.3"},
                                     GlooOptions{.group = "g", .bind_address = "fe80::1"},
                                     GlooOptions{.group = "g", .interface = "eth0"}}) {
    const absl::Status status = Join(options, store);
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_THAT(status.ToString(), HasSubstr("trusted_network"));
  }
  EXPECT_TRUE(Join({.group = "g", .bind_address = "127.0.0.2"}, store).ok());
  EXPECT_TRUE(Join({.group = "h", .interface = "lo"}, store).ok());
}

TEST(JoinGlooTest, TellsThatAnAddressIsNotOfThisHost) {
  MemoryRendezvousStore store;
  // Reserved for documentation, so no host has it.
  const absl::Status status =
      Join({.group = "g", .size = 2, .bind_address = "192.0.2.1", .trusted_network = true}, store);
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(status.ToString(), HasSubstr("cannot bind to 192.0.2.1: Cannot assign"));
}

TEST(JoinGlooTest, NamesTheRankThatDoesNotCome) {
  MemoryRendezvousStore store;
  const absl::Status status =
      Join({.group = "g", .rank = 1, .size = 2}, store, absl::Milliseconds(50));
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_THAT(status.ToString(), AllOf(HasSubstr("rank 1 of 2 in 'g'"), HasSubstr("'g/0'")));
}

TEST(JoinGlooTest, RefusesARankThatIsThere) {
  MemoryRendezvousStore store;
  ASSERT_TRUE(store.Set("g/1", "an earlier rank 1").ok());
  const absl::Status status = Join({.group = "g", .rank = 1, .size = 2}, store);
  EXPECT_TRUE(absl::IsAlreadyExists(status)) << status;
  EXPECT_THAT(status.ToString(), HasSubstr("'g/1'"));
}

TEST(JoinGlooTest, RefusesAPeerOfAnotherGroupSize) {
  MemoryRendezvousStore store;
  ASSERT_TRUE(store.Set("g/1", "addresses of another length").ok());
  const absl::Status status = Join({.group = "g", .rank = 0, .size = 2}, store);
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(status.ToString(), AllOf(HasSubstr("rank 1 left 27 bytes"), HasSubstr("group of 2")));
}

}  // namespace
}  // namespace sluice::testing
