#include "kernels/communicator/wiring_identity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "tests/kernels/testing/test_wiring.h"

namespace sluice::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(WiringIdentityTest, NoncesDiffer) {
  std::set<WiringNonce> drawn;
  for (int i = 0; i < 1000; ++i) drawn.insert(DrawWiringNonce());
  EXPECT_EQ(drawn.size(), 1000u);
}

TEST(WiringIdentityTest, TellsNoncesApartByEveryByte) {
  const WiringNonce nonce = DrawWiringNonce();
  EXPECT_TRUE(IsSameNonce(nonce, nonce));
  for (std::size_t i = 0; i < nonce.size(); ++i) {
    WiringNonce other = nonce;
    other[i] ^= std::byte{1};
    EXPECT_FALSE(IsSameNonce(nonce, other)) << i;
  }
}

TEST(WiringIdentityTest, NamesAllThatDiffersAndShowsNoNonce) {
  const WiringIdentity ours = TestWiring(4);
  EXPECT_TRUE(CheckSameWiring(ours, TestWiring(4)).ok());
  const absl::Status nonce = CheckSameWiring(TestWiring(4, 0x5a), ours);
  EXPECT_TRUE(absl::IsAborted(nonce));
  EXPECT_THAT(nonce.ToString(), AllOf(HasSubstr("another wiring of this model and epoch"),
                                      Not(HasSubstr("5a")), Not(HasSubstr("ZZ"))));
  const absl::Status both =
      CheckSameWiring(*WiringIdentity::Make(ours.nonce, 5, "another-model"), ours);
  EXPECT_TRUE(absl::IsAborted(both));
  EXPECT_THAT(both.ToString(),
              AllOf(HasSubstr("its model fingerprint is another-model, expected test-model"),
                    HasSubstr("it is wired into epoch 5, expected epoch 4")));
}

TEST(WiringIdentityTest, KeepsFingerprintsOfUpTo64Bytes) {
  const std::string longest(64, 'f');
  EXPECT_EQ(WiringIdentity::Make({}, 1, longest)->fingerprint(), longest);
  EXPECT_EQ(WiringIdentity::Make({}, 1, "")->fingerprint(), "");
  const absl::Status refused = WiringIdentity::Make({}, 1, longest + "f").status();
  EXPECT_TRUE(absl::IsInvalidArgument(refused));
  EXPECT_THAT(refused.ToString(), HasSubstr("65 bytes; accepted: at most 64"));
}

}  // namespace
}  // namespace sluice::testing
