#include "services/common/connection_cause.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

constexpr char kChain[] =
    "failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:1: ";

std::string CauseOf(const std::string& last) { return ConnectionCause(kChain + last); }

TEST(ConnectionCause, IsTheLastOfAChain) {
  EXPECT_EQ(CauseOf("Connection refused"), "Connection refused");
  EXPECT_EQ(ConnectionCause("connections to all backends failing; last error: UNAVAILABLE: x: y"),
            "y");
}

TEST(ConnectionCause, OfAHandshakeIsSaidInWords) {
  EXPECT_EQ(CauseOf("error:0A00010B:SSL routines::wrong version number"), "it does not speak TLS");
  EXPECT_EQ(CauseOf("error:0A000086:SSL routines::certificate verify failed"),
            "its certificate comes from no authority that is trusted here");
}

TEST(ConnectionCause, LeavesOtherMessagesAsTheyAre) {
  EXPECT_EQ(ConnectionCause("the model: wrong version number"), "the model: wrong version number");
}

}  // namespace
}  // namespace sluice
