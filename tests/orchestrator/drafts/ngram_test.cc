#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "orchestrator/drafts/ngram_drafter.h"
#include "orchestrator/drafts/ngram_index.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<TokenId> TokensOf(const std::vector<DraftToken>& draft) {
  std::vector<TokenId> tokens;
  for (const DraftToken& token : draft) tokens.push_back(token.token);
  return tokens;
}

std::vector<DraftToken> Proposed(const std::vector<TokenId>& tokens, int most) {
  NgramDrafter drafter;
  drafter.Learn(tokens);
  std::vector<DraftToken> draft;
  drafter.Propose(tokens, most, draft);
  return draft;
}

TEST(NgramDrafter, ProposesWhatFollowedTheSameTokens) {
  const std::vector<DraftToken> draft = Proposed({1, 2, 3, 4, 5, 9, 1, 2, 3}, 3);
  EXPECT_THAT(TokensOf(draft), ElementsAre(4, 5, 9));
  EXPECT_EQ(draft[0].kind, DraftKind::kAfter3);
  EXPECT_EQ(draft[1].kind, DraftKind::kAfter4);
}

TEST(NgramDrafter, PrefersTheLongestMatchAndThenTheLatest) {
  EXPECT_THAT(TokensOf(Proposed({7, 1, 2, 10, 8, 1, 2, 20, 9, 7, 1, 2}, 1)), ElementsAre(10));
  EXPECT_THAT(TokensOf(Proposed({7, 1, 2, 10, 8, 1, 2, 20, 9, 1, 2}, 1)), ElementsAre(20));
}

TEST(NgramDrafter, GoesOnWithItsOwnProposalWhereASequenceRepeatsItself) {
  EXPECT_THAT(TokensOf(Proposed({1, 2, 1, 2}, 5)), ElementsAre(1, 2, 1, 2, 1));
}

TEST(NgramDrafter, ProposesNothingAfterOneTokenAloneOrNone) {
  EXPECT_THAT(Proposed({}, 4), IsEmpty());
  EXPECT_THAT(Proposed({1}, 4), IsEmpty());
  EXPECT_THAT(Proposed({1, 2, 3, 1}, 4), IsEmpty());
}

// All that a slow search finds, token by token, within the window and the candidates looked at.
TEST(NgramIndex, FindsPlacesThatAreAlikeAndNoOthers) {
  std::mt19937 random(1);
  for (int vocabulary : {2, 5, 40}) {
    NgramIndex index;
    std::vector<TokenId> text;
    for (int step = 0; step < 3000; ++step) {
      text.push_back(static_cast<TokenId>(random() % vocabulary));
      if (step % 3 == 0) index.Learn(text);
      if (step % 3 != 0) continue;
      const NgramIndex::Match match = index.Find(text, text, 2);
      const auto size = static_cast<int32_t>(text.size());
      int32_t any = 0;
      for (int32_t next = 2; next < size && any == 0; ++next) {
        any = size >= 2 && text[next - 1] == text[size - 1] && text[next - 2] == text[size - 2];
      }
      ASSERT_EQ(match.length > 0, any > 0) << "step " << step;
      if (match.length == 0) continue;
      ASSERT_GE(match.length, 2);
      ASSERT_LT(match.next, size);
      ASSERT_TRUE(std::equal(text.end() - match.length, text.end(),
                             text.begin() + match.next - match.length));
    }
  }
}

TEST(NgramIndex, TakesUpALongTextLittleByLittleAndForgetsWhatIsFarBack) {
  std::vector<TokenId> text = {1, 2, 3, 4};
  for (int i = 0; i < NgramIndex::kWindow + 10; ++i) text.push_back(100 + i);
  text.insert(text.end(), {1, 2});
  NgramIndex index;
  index.Learn(text);
  const size_t first = index.memory();
  for (int i = 0; i < 10; ++i) index.Learn(text);
  EXPECT_GT(index.memory(), first);
  EXPECT_LE(index.memory(), size_t{NgramIndex::kWindow} * 8);
  EXPECT_EQ(index.Find(text, text, 2).length, 0);
  text.insert(text.end(), {3, 5, 1, 2});
  index.Learn(text);
  EXPECT_EQ(text[index.Find(text, text, 2).next], 3);
}

}  // namespace
}  // namespace sluice
