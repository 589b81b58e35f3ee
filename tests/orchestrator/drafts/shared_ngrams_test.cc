#include "orchestrator/drafts/shared_ngrams.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<TokenId> Proposed(const SharedText& text, const std::vector<TokenId>& tokens) {
  std::vector<DraftToken> draft;
  text.Propose(tokens, 4, draft);
  std::vector<TokenId> proposed;
  for (const DraftToken& token : draft) proposed.push_back(token.token);
  return proposed;
}

TEST(SharedNgrams, ProposesWhatAnotherSequenceOfTheTenantWrote) {
  SharedNgrams shared;
  shared.TextOf("ann", "")->Add({1, 2, 3, 4, 5, 6});
  EXPECT_THAT(Proposed(*shared.TextOf("ann", ""), {9, 2, 3, 4}), ElementsAre(5, 6));
  EXPECT_THAT(Proposed(*shared.TextOf("ann", ""), {9, 3, 4}), IsEmpty()) << "two are too few";
  EXPECT_THAT(Proposed(*shared.TextOf("bob", ""), {9, 2, 3, 4}), IsEmpty());
  EXPECT_THAT(Proposed(*shared.TextOf("ann", "salt"), {9, 2, 3, 4}), IsEmpty());
}

TEST(SharedNgrams, NothingGoesOnFromOneSequenceIntoTheNext) {
  SharedText text;
  text.Add({1, 2, 3});
  text.Add({4, 5, 6});
  EXPECT_THAT(Proposed(text, {1, 2, 3}), IsEmpty());
  EXPECT_THAT(Proposed(text, {2, 3, 4}), IsEmpty());
}

TEST(SharedNgrams, KeepsTheLatestTextAndTheLatestTenants) {
  SharedText text;
  std::vector<TokenId> tokens(1000);
  for (int i = 0; i < 100; ++i) {
    std::iota(tokens.begin(), tokens.end(), 1000 * i);
    text.Add(tokens);
  }
  EXPECT_THAT(Proposed(text, {5, 6, 7}), IsEmpty());
  EXPECT_THAT(Proposed(text, {99'005, 99'006, 99'007}),
              ElementsAre(99'008, 99'009, 99'010, 99'011));

  SharedNgrams shared;
  const auto first = shared.TextOf("first", "");
  for (size_t i = 1; i < SharedNgrams::kMostTexts; ++i) shared.TextOf(std::to_string(i), "");
  EXPECT_EQ(shared.TextOf("first", ""), first);
  shared.TextOf("one more", "");
  EXPECT_EQ(shared.TextOf("first", ""), first) << "it was used of late";
  for (size_t i = 0; i < SharedNgrams::kMostTexts; ++i) shared.TextOf(std::to_string(i), "");
  EXPECT_NE(shared.TextOf("first", ""), first);
}

}  // namespace
}  // namespace sluice
