#include "services/security/local_address.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(IsLocalAddress, HoldsForUnixInProcessAndLoopback) {
  for (const char* address : {"unix:/run/a.sock", "unix:a", "inproc:x", "127.0.0.1:9000",
                              "127.8.8.8:1", "localhost:9000", "[::1]:9000"}) {
    EXPECT_TRUE(IsLocalAddress(address)) << address;
  }
  for (const char* address : {"0.0.0.0:9000", "[::]:9000", "10.0.0.1:9000", "example.org:9000",
                              "localhost.example.org:1", "", "[::2]:9000", "1127.0.0.1:1"}) {
    EXPECT_FALSE(IsLocalAddress(address)) << address;
  }
}

// A name that begins like a loopback address is resolved by DNS to wherever its owner likes.
TEST(IsLocalAddress, DoesNotHoldForNamesThatOnlyLookLikeLoopback) {
  for (const char* address : {"127.example.org:9000", "127.0.0.1.example.org:9000", "127.:1"}) {
    EXPECT_FALSE(IsLocalAddress(address)) << address;
  }
}

TEST(IsOwnersAddress, HoldsForNoLoopback) {
  EXPECT_TRUE(IsOwnersAddress("unix:/run/a.sock"));
  EXPECT_TRUE(IsOwnersAddress("inproc:x"));
  EXPECT_FALSE(IsOwnersAddress("127.0.0.1:9000"));
  EXPECT_FALSE(IsOwnersAddress("localhost:9000"));
}

}  // namespace
}  // namespace sluice
