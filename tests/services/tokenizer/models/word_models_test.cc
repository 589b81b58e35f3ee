// Unigram, WordPiece and WordLevel, through tokenizers that consist of little else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "services/tokenizer/models/serde_number.h"
#include "services/tokenizer/tokenizer.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<std::unique_ptr<const Tokenizer>> Load(const std::string& model,
                                                      const std::string& pre_tokenizer = "null") {
  return Tokenizer::FromJson(
      R"({"model": )" + model + R"(, "pre_tokenizer": )" + pre_tokenizer + "}", "small.json");
}

std::vector<std::string> Tokens(const Tokenizer& tokenizer, const std::string& text) {
  const auto encoding = tokenizer.Encode(text, {.offsets = true});
  EXPECT_TRUE(encoding.ok()) << encoding.status();
  EXPECT_EQ(tokenizer.Encode(text)->ids, encoding->ids);  // cached or not
  EXPECT_EQ(tokenizer.Encode(text)->ids, encoding->ids);
  std::vector<std::string> tokens;
  for (const TokenId id : encoding->ids) tokens.emplace_back(tokenizer.TokenText(id));
  return tokens;
}

TEST(UnigramModel, TakesThePathOfTheHighestScore) {
  const auto tokenizer = Load(R"({"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0],
      ["a", 0.0], ["b", 0.0], ["c", 0.0], ["d", 0.0], ["cd", 1.0], ["ab", 2.0], ["abc", 5.0],
      ["abcd", 10.0]]})");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_THAT(Tokens(**tokenizer, "abcdacdxxb"), ElementsAre("abcd", "a", "cd", "<unk>", "b"));
  EXPECT_EQ((*tokenizer)->Encode("axéyb", {.offsets = true})->offsets[1], (ByteRange{1, 5}));
}

TEST(UnigramModel, PrefersTheEarlierBeginningOfEquals) {
  const auto tokenizer = Load(R"({"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", -9],
      ["a", -1], ["aa", -1], ["b", -1]]})");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_THAT(Tokens(**tokenizer, "aaa"), ElementsAre("a", "aa"));
}

// Scores are single-precision numbers, whose sums would be equal whatever the order; as Hugging
// Face reads two of these, they are not, and what is found is another path.
TEST(UnigramModel, BreaksTiesAsHuggingFaceReadsScores) {
  EXPECT_EQ(AsSerdeReads(-9.175812721252441), -9.17581272125244);
  EXPECT_EQ(AsSerdeReads(-13.914960861206055), -13.914960861206056);
  for (const double exact : {-8.824870109558105, 1e22, -0.5, 3.0, 0.0}) {
    EXPECT_EQ(AsSerdeReads(exact), exact);
  }
  const std::string shorter = "---", longer = "-----";
  const auto tokenizer = Load(R"({"type": "Unigram", "unk_id": null, "vocab": [
      ["-", -8.824870109558105], ["--", -9.033597946166992], ["---", -4.678066730499268],
      ["-----", -9.175812721252441], ["--------", -13.914960861206055]]})");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_THAT(Tokens(**tokenizer, std::string(16, '-')),
              ElementsAre(shorter, longer, longer, shorter));
}

TEST(UnigramModel, FallsBackToBytes) {
  nlohmann::json model = {{"type", "Unigram"}, {"unk_id", 0}, {"byte_fallback", true}};
  model["vocab"] =
      nlohmann::json::parse(R"([["<unk>", 0], ["<0xC3>", -1], ["<0xA9>", -1], ["a", -1]])");
  const auto tokenizer = Load(model.dump());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_THAT(Tokens(**tokenizer, "aéa"), ElementsAre("a", "<0xC3>", "<0xA9>", "a"));
  EXPECT_THAT(Tokens(**tokenizer, "è"), ElementsAre("<unk>"));  // "<0xA8>" is not there
}

TEST(UnigramModel, RefusesWhatIsMalformed) {
  for (const auto& [vocab, message] : std::vector<std::pair<std::string, std::string>>{
           {R"([["a", 0], ["b"]])", "model.vocab[1] is a list of 1; accepted: [\"token\", score]"},
           {R"([["a", "b"]])", "model.vocab[0] has its parts in the wrong order"},
           {R"([["a", 0], ["a", 1]])", "model.vocab[\"a\"] is there twice"},
           {R"([["a", null]])", "model.vocab[0] holds null"},
           {R"({"a": 0})", "model.vocab is an object; accepted: a list"},
           {"[]", "model.vocab is empty"}}) {
    const auto tokenizer = Load(R"({"type": "Unigram", "unk_id": null, "vocab": )" + vocab + "}");
    ASSERT_FALSE(tokenizer.ok()) << vocab;
    EXPECT_THAT(std::string(tokenizer.status().message()), HasSubstr(message));
  }
  EXPECT_THAT(
      std::string(
          Load(R"({"type": "Unigram", "unk_id": 1, "vocab": [["a", 0]]})").status().message()),
      HasSubstr("model.unk_id is 1; accepted: null or an index of model.vocab"));
}

TEST(WordPieceModel, TakesTheLongestFirst) {
  const auto tokenizer =
      Load(R"({"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
               "max_input_chars_per_word": 6,
               "vocab": {"[UNK]": 0, "un": 1, "##aff": 2, "##able": 3, "##a": 4, "é": 5}})",
           R"({"type": "WhitespaceSplit"})");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_THAT(Tokens(**tokenizer, "unable unaff unx éa unaffable"),
              ElementsAre("un", "##able", "un", "##aff", "[UNK]", "é", "##a", "[UNK]"));
}

TEST(WordLevelModel, LooksWholeWordsUp) {
  const auto tokenizer =
      Load(R"({"type": "WordLevel", "unk_token": "<unk>", "vocab": {"<unk>": 0, "ab": 1}})",
           R"({"type": "WhitespaceSplit"})");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_THAT(Tokens(**tokenizer, "ab a"), ElementsAre("ab", "<unk>"));
}

TEST(BpeModel, SpellsWordsWithAffixes) {
  const auto tokenizer =
      Load(R"({"type": "BPE", "unk_token": "<unk>", "continuing_subword_prefix": "##",
               "end_of_word_suffix": "</w>",
               "vocab": {"<unk>": 0, "a": 1, "##b": 2, "##b</w>": 3, "ab": 4, "ab</w>": 5},
               "merges": [["a", "##b"], "a ##b</w>"]})",
           R"({"type": "WhitespaceSplit"})");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_THAT(Tokens(**tokenizer, "ab abb b"), ElementsAre("ab</w>", "ab", "##b</w>", "<unk>"));
}

}  // namespace
}  // namespace sluice
