#include "kernels/communicator/tcp/rank_hello.h"

#include <gtest/gtest.h>

namespace sluice::testing {
namespace {

TEST(RankHelloTest, ComesBackFromItsBytes) {
  const RankHello hello = {.token = NewRankToken(), .rank = 0x01020304, .size = 8};
  const auto parsed = ParseRankHello(Encode(hello));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_TRUE(SameToken(parsed->token, hello.token));
  EXPECT_EQ(parsed->rank, hello.rank);
  EXPECT_EQ(parsed->size, hello.size);
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
  const RankAddress address = {
      .tls = true, .size = 4, .host = "fd00::2", .port = 65535, .token = NewRankToken()};
  const auto parsed = ParseRankAddress(Encode(address));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_TRUE(parsed->tls);
  EXPECT_EQ(parsed->size, 4);
  EXPECT_EQ(parsed->host, "fd00::2");
  EXPECT_EQ(parsed->port, 65535);
  EXPECT_TRUE(SameToken(parsed->token, address.token));
}

TEST(RankAddressTest, RefusesWhatNobodyWrote) {
  const std::string token(32, 'a');
  ASSERT_TRUE(ParseRankAddress("sluice-ranks/1 plain 2 ::1 80 " + token).ok());
  for (const std::string& text :
       {std::string(), "sluice-ranks/2 plain 2 ::1 80 " + token,
        "sluice-ranks/1 none 2 ::1 80 " + token, "sluice-ranks/1 plain 0 ::1 80 " + token,
        "sluice-ranks/1 plain -2 ::1 80 " + token, "sluice-ranks/1 plain 02 ::1 80 " + token,
        "sluice-ranks/1 plain 2 ::1 65536 " + token, "sluice-ranks/1 plain 2 ::1 0 " + token,
        "sluice-ranks/1 plain 2 ::1 80 " + token.substr(1),
        "sluice-ranks/1 plain 2 ::1 80 " + token.substr(1) + "g",
        "sluice-ranks/1 plain 2 ::1 80 " + token + " more"}) {
    EXPECT_FALSE(ParseRankAddress(text).ok()) << text;
  }
}

}  // namespace
}  // namespace sluice::testing
