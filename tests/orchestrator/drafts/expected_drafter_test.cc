#include "orchestrator/drafts/expected_drafter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <vector>

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Expects 100, 101, ... 199 behind a prompt of one token.
class ExpectedDrafterTest : public ::testing::Test {
 protected:
  ExpectedDrafterTest() {
    std::vector<TokenId> expected(100);
    std::iota(expected.begin(), expected.end(), 100);
    drafter_ = std::make_unique<ExpectedDrafter>(
        1, std::make_shared<const std::vector<TokenId>>(std::move(expected)));
  }

  std::vector<TokenId> After(const std::vector<TokenId>& came) {
    tokens_.insert(tokens_.end(), came.begin(), came.end());
    drafter_->Learn(tokens_);
    std::vector<DraftToken> draft;
    drafter_->Propose(tokens_, 3, draft);
    std::vector<TokenId> proposed;
    for (const DraftToken& token : draft) {
      EXPECT_EQ(token.kind, DraftKind::kExpected);
      proposed.push_back(token.token);
    }
    return proposed;
  }

  std::unique_ptr<ExpectedDrafter> drafter_;
  std::vector<TokenId> tokens_ = {7};
};

TEST_F(ExpectedDrafterTest, GoesOnPlaceByPlace) {
  EXPECT_THAT(After({}), ElementsAre(100, 101, 102));
  EXPECT_THAT(After({100, 101}), ElementsAre(102, 103, 104));
  EXPECT_THAT(After({5}), ElementsAre(103, 104, 105)) << "one came otherwise";
  EXPECT_THAT(After({103, 6, 105}), ElementsAre(106, 107, 108));
  EXPECT_THAT(After({8, 9}), ElementsAre(108, 109, 110)) << "and it is nowhere else";
}

TEST_F(ExpectedDrafterTest, FindsItsPlaceAgainBehindWhatWasPutInOrLeftOut) {
  After({100, 101, 102});
  After({1, 2, 3});  // put in
  EXPECT_THAT(After({103, 104, 105}), ElementsAre(106, 107, 108));
  EXPECT_THAT(After({106}), ElementsAre(107, 108, 109));
  EXPECT_THAT(After({150, 151, 152, 153}), ElementsAre(154, 155, 156));  // left out
}

TEST_F(ExpectedDrafterTest, EndsWithWhatIsExpected) {
  After({195, 196, 197, 198});
  EXPECT_THAT(After({}), ElementsAre(199));
  EXPECT_THAT(After({199}), IsEmpty());
  EXPECT_THAT(After({1, 2, 3}), IsEmpty());
}

}  // namespace
}  // namespace sluice
