#include "services/tokenizer/models/bpe_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Pair = std::pair<TokenId, TokenId>;

// The definition, word for word: find the best pair, merge it, begin again.
std::vector<TokenId> MergePlainly(const std::map<Pair, MergeRule>& merges,
                                  std::vector<TokenId> word) {
  while (true) {
    size_t best = 0;
    uint32_t best_rank = MergeRule::kNoRank;
    TokenId result = kNoToken;
    for (size_t i = 0; i + 1 < word.size(); ++i) {
      const auto merge = merges.find({word[i], word[i + 1]});
      if (merge == merges.end() || merge->second.rank >= best_rank) continue;
      best = i;
      best_rank = merge->second.rank;
      result = merge->second.result;
    }
    if (best_rank == MergeRule::kNoRank) return word;
    word[best] = result;
    word.erase(word.begin() + best + 1);
  }
}

TEST(BpeMerger, MergesByRankThenFromTheLeft) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    // Tokens are numbers of letters from a small alphabet; a pair's result is new, as in training.
    std::map<Pair, MergeRule> merges;
    MergeTable table(60);
    TokenId num_tokens = 3;
    for (uint32_t rank = 0; rank < 60; ++rank) {
      const Pair pair(random() % num_tokens, random() % num_tokens);
      if (!merges.try_emplace(pair, MergeRule{rank, num_tokens}).second) continue;
      table.Add(pair.first, pair.second, {rank, num_tokens++});
    }
    BpeMerger merger;
    // Both sides of the length at which the method changes.
    for (const size_t size : {1, 2, 3, 10, 47, 48, 49, 50, 200}) {
      std::vector<TokenId> word;
      std::vector<BpeSymbol> symbols;
      for (size_t i = 0; i < size; ++i) {
        word.push_back(random() % 3);
        symbols.push_back({word.back(), 1});
      }
      merger.Merge(table, &symbols);
      std::vector<TokenId> ids;
      size_t num_bytes = 0;
      for (const BpeSymbol& symbol : symbols) {
        ids.push_back(symbol.id);
        num_bytes += symbol.num_bytes;
      }
      ASSERT_EQ(ids, MergePlainly(merges, word)) << "seed " << seed << " size " << size;
      ASSERT_EQ(num_bytes, size) << "seed " << seed;
    }
  }
}

class BpeModelTest : public ::testing::Test {
 protected:
  // Ids in the order given.
  explicit BpeModelTest(const std::vector<std::string>& tokens = {"a", "b", "ab", "?", "<0xC3>",
                                                                  "<0xA9>", "Ġ", "aĠ", "Ã", "é"}) {
    for (const std::string& token : tokens) vocabulary_.Add(token, vocabulary_.id_limit());
  }

  std::vector<TokenId> Tokenize(const BpeOptions& options, const Piece& piece) const {
    MergeTable merges(2);
    merges.Add(0, 1, {0, 2});  // a b
    merges.Add(0, 6, {1, 7});  // a Ġ
    const BpeModel model(vocabulary_, std::move(merges), options);
    const auto scratch = model.NewScratch();
    Encoding first, second;
    model.Tokenize(piece, *scratch, &first);
    model.Tokenize(piece, *scratch, &second);  // remembered
    EXPECT_EQ(first.ids, second.ids);
    return first.ids;
  }

  Vocabulary vocabulary_;
};

TEST_F(BpeModelTest, EncodesCharactersOrBytes) {
  EXPECT_THAT(Tokenize({}, {"abé"}), ElementsAre(2, 9));
  EXPECT_THAT(Tokenize({}, {.text = "a \xC3", .byte_level = true}), ElementsAre(7, 8));
}

TEST_F(BpeModelTest, UnknownCharactersVanishWithoutAnUnknownToken) {
  EXPECT_THAT(Tokenize({}, {"axb"}), ElementsAre(2));
  EXPECT_THAT(Tokenize({}, {"x"}), IsEmpty());
}

TEST_F(BpeModelTest, UnknownCharactersBecomeTheUnknownToken) {
  EXPECT_THAT(Tokenize({.unk_token = 3}, {"xya"}), ElementsAre(3, 3, 0));
  EXPECT_THAT(Tokenize({.unk_token = 3, .fuse_unk = true}, {"xyaz"}), ElementsAre(3, 0, 3));
}

TEST_F(BpeModelTest, UnknownCharactersBecomeBytesWhereAllAreTokens) {
  EXPECT_THAT(Tokenize({.unk_token = 3, .byte_fallback = true}, {"a\u00ebb"}),
              ElementsAre(0, 3, 1));
}

TEST_F(BpeModelTest, WholePieceStaysWholeWhereMergesAreIgnored) {
  vocabulary_.Add("ba", 10);
  EXPECT_THAT(Tokenize({}, {"ba"}), ElementsAre(1, 0));
  EXPECT_THAT(Tokenize({.ignore_merges = true}, {"ba"}), ElementsAre(10));
  EXPECT_THAT(Tokenize({.ignore_merges = true, .control_tokens = {10}}, {"ba"}), ElementsAre(1, 0));
}

class ByteFallback : public BpeModelTest {
 protected:
  ByteFallback() : BpeModelTest({"a", "b", "ab", "?", "<0xC3>", "<0xA9>", "Ġ", "aĠ"}) {}
};

TEST_F(ByteFallback, SpellsWhatIsUnknownInBytes) {
  EXPECT_THAT(Tokenize({.unk_token = 3, .byte_fallback = true}, {"a\u00e9b"}),
              ElementsAre(0, 4, 5, 1));
}

}  // namespace
}  // namespace sluice
