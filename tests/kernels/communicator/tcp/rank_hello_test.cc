#include "kernels/communicator/tcp/rank_hello.h"

#include <gtest/gtest.h>

#include "tests/kernels/testing/test_wiring.h"

namespace sluice::testing {
namespace {

TEST(RankHelloTest, ComesBackFromItsBytes) {
  const RankToken token = NewRankToken();
  const RankHello hello = {
      .token = token, .rank = 0x01020304, .size = 8, .wiring = ClaimOf(TestWiring(7), token)};
  const auto parsed = ParseRankHello(Encode(hello));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_TRUE(SameToken(parsed->token, hello.token));
  EXPECT_EQ(parsed->rank, hello.rank);
  EXPECT_EQ(parsed->size, hello.size);
  EXPECT_TRUE(CheckClaim(parsed->wiring, token, TestWiring(7)).ok());
}

TEST(RankHelloTest, RefusesOtherProtocols) {
  RankHelloBytes bytes = Encode(RankHello{});
  bytes[0] ^= std::byte{1};
  EXPECT_EQ(ParseRankHello(bytes).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(RankHelloTest, TokensDiffer) {
  const RankToken token = NewRankToken();
  EXPECT_FALSE(SameToken(token, NewRankToken()));
  RankToken near = token;
  near.back() ^= std::byte{0x80};
  EXPECT_FALSE(SameToken(token, near));
}

TEST(RankAddressTest, ComesBackFromItsText) {
  const RankToken token = NewRankToken();
  const RankAddress address = {.tls = true,
                               .size = 4,
                               .host = "fd00::2",
                               .port = 65535,
                               .token = token,
                               .wiring = ClaimOf(TestWiring(7), token)};
  const auto parsed = ParseRankAddress(Encode(address));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_TRUE(parsed->tls);
  EXPECT_EQ(parsed->size, 4);
  EXPECT_EQ(parsed->host, "fd00::2");
  EXPECT_EQ(parsed->port, 65535);
  EXPECT_TRUE(SameToken(parsed->token, address.token));
  EXPECT_TRUE(CheckClaim(parsed->wiring, token, TestWiring(7)).ok());
}

TEST(RankAddressTest, RefusesWhatNobodyWrote) {
  const std::string token(32, 'a'), model(128, '0'), proof(32, 'b');
  const std::string tail = token + " 7 " + model + " " + proof;
  ASSERT_TRUE(ParseRankAddress("sluice-ranks/2 plain 2 ::1 80 " + tail).ok());
  for (const std::string& text :
       {std::string(), "sluice-ranks/1 plain 2 ::1 80 " + tail,
        "sluice-ranks/2 none 2 ::1 80 " + tail, "sluice-ranks/2 plain 0 ::1 80 " + tail,
        "sluice-ranks/2 plain -2 ::1 80 " + tail, "sluice-ranks/2 plain 02 ::1 80 " + tail,
        "sluice-ranks/2 plain 2 ::1 65536 " + tail, "sluice-ranks/2 plain 2 ::1 0 " + tail,
        "sluice-ranks/2 plain 2 ::1 80 " + tail.substr(1),
        "sluice-ranks/2 plain 2 ::1 80 " + tail.substr(0, tail.size() - 1) + "g",
        "sluice-ranks/2 plain 2 ::1 80 " + token + " -7 " + model + " " + proof,
        "sluice-ranks/2 plain 2 ::1 80 " + token + " 07 " + model + " " + proof,
        "sluice-ranks/2 plain 2 ::1 80 " + token + " 18446744073709551616 " + model + " " + proof,
        "sluice-ranks/2 plain 2 ::1 80 " + token + " 7 " + model.substr(1) + " " + proof,
        "sluice-ranks/2 plain 2 ::1 80 " + token + " 7 " + model,
        "sluice-ranks/2 plain 2 ::1 80 " + tail + " more"}) {
    EXPECT_FALSE(ParseRankAddress(text).ok()) << text;
  }
}

// A claim shows that its sender knows the nonce, to those who know it, and does not tell it.
TEST(WiringClaimTest, HoldsForOneWiringAndOneToken) {
  const RankToken token = NewRankToken();
  const WiringIdentity ours = TestWiring();
  const WiringClaim claim = ClaimOf(ours, token);
  EXPECT_TRUE(CheckClaim(claim, token, ours).ok());
  for (const WiringIdentity& other :
       {TestWiring(1, 2), TestWiring(2), *WiringIdentity::Make(ours.nonce, 1, "other")}) {
    EXPECT_TRUE(absl::IsAborted(CheckClaim(claim, token, other)));
  }
  EXPECT_TRUE(absl::IsAborted(CheckClaim(claim, NewRankToken(), ours))) << "said again elsewhere";
  EXPECT_TRUE(absl::IsAborted(CheckClaim(WiringClaim{}, token, WiringIdentity{})));
}

}  // namespace
}  // namespace sluice::testing
