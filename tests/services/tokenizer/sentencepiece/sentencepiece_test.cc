#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "services/tokenizer/sentencepiece/sentencepiece_file.h"
#include "services/tokenizer/tokenizer.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using PieceType = SentencePieceFile::PieceType;
using ModelType = SentencePieceFile::ModelType;

// Protocol buffers, byte by byte.
std::string Varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes.push_back(static_cast<char>(value | 0x80));
  bytes.push_back(static_cast<char>(value));
  return bytes;
}
std::string Number(int field, uint64_t value) { return Varint(field << 3) + Varint(value); }
std::string Bytes(int field, const std::string& content) {
  return Varint(field << 3 | 2) + Varint(content.size()) + content;
}
std::string Float(int field, float value) {
  std::string bytes(4, '\0');
  std::memcpy(bytes.data(), &value, 4);
  return Varint(field << 3 | 5) + bytes;
}

struct Piece {
  std::string text;
  float score = 0;
  PieceType type = PieceType::kNormal;
};

struct Settings {
  ModelType type = ModelType::kBpe;
  bool byte_fallback = false;
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = false;
};

std::string ModelFile(const std::vector<Piece>& pieces, const Settings& settings) {
  std::string file;
  for (const Piece& piece : pieces) {
    file += Bytes(1, Bytes(1, piece.text) + Float(2, piece.score) +
                         Number(3, static_cast<uint64_t>(piece.type)));
  }
  file += Bytes(2, Number(3, static_cast<uint64_t>(settings.type)) +
                       Number(35, settings.byte_fallback) + Number(99, 5));
  return file + Bytes(3, Number(3, settings.add_dummy_prefix) +
                             Number(4, settings.remove_extra_whitespaces));
}

std::vector<Piece> SmallVocabulary() {
  return {{"<unk>", 0, PieceType::kUnknown},
          {"<s>", 0, PieceType::kControl},
          {"</s>", 0, PieceType::kControl},
          {"<0xC3>", 0, PieceType::kByte},
          {"<0xA9>", 0, PieceType::kByte},
          {"▁", -9},
          {"a", -8},
          {"b", -7},
          {"ab", -1},
          {"▁a", -2},
          {"[X]", 0, PieceType::kUserDefined}};
}

std::unique_ptr<const Tokenizer> Load(const Settings& settings) {
  auto tokenizer = Tokenizer::FromSentencePiece(ModelFile(SmallVocabulary(), settings), "small");
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return *std::move(tokenizer);
}

std::vector<std::string> PieceTokens(const Tokenizer& tokenizer, const std::string& text) {
  const auto encoding = tokenizer.Encode(text, {.add_special = false, .offsets = true});
  EXPECT_TRUE(encoding.ok()) << encoding.status();
  EXPECT_EQ(encoding->ids.size(), encoding->offsets.size());
  std::vector<std::string> tokens;
  for (const TokenId id : encoding->ids) tokens.emplace_back(tokenizer.TokenText(id));
  return tokens;
}

TEST(SentencePieceBpe, MergesByScore) {
  const auto tokenizer = Load({});
  EXPECT_THAT(PieceTokens(*tokenizer, "ab a"), ElementsAre("▁", "ab", "▁a"));
  EXPECT_THAT(PieceTokens(*tokenizer, "  b"), ElementsAre("▁", "▁", "▁", "b"));
  EXPECT_THAT(tokenizer->Encode("a")->ids, ElementsAre(1, 9));  // "<s>"
}

TEST(SentencePieceBpe, KeepsUserDefinedPiecesWhole) {
  const auto tokenizer = Load({});
  EXPECT_THAT(PieceTokens(*tokenizer, "a[X]b"), ElementsAre("▁a", "[X]", "b"));
}

TEST(SentencePieceBpe, TakesUnknownCharactersTogetherOrAsBytes) {
  EXPECT_THAT(PieceTokens(*Load({}), "xyéa"), ElementsAre("▁", "<unk>", "a"));
  EXPECT_THAT(PieceTokens(*Load({.byte_fallback = true}), "é"),
              ElementsAre("▁", "<0xC3>", "<0xA9>"));
}

TEST(SentencePieceBpe, RecognisesControlPiecesWhereAsked) {
  const auto tokenizer = Load({});
  EXPECT_THAT(tokenizer->Encode("</s>", {.add_special = false})->ids, ElementsAre(5, 0));
  const auto parsed = tokenizer->Encode("</s>", {.add_special = false, .parse_special = true});
  EXPECT_THAT(parsed->ids, ElementsAre(2));
}

TEST(SentencePieceUnigram, UsesScoresAsLogProbabilities) {
  const auto tokenizer = Load({.type = ModelType::kUnigram});
  EXPECT_THAT(PieceTokens(*tokenizer, "ab"), ElementsAre("▁a", "b"));  // -9, against -10
  EXPECT_THAT(PieceTokens(*tokenizer, "xya"), ElementsAre("▁", "<unk>", "a"));
  EXPECT_THAT(PieceTokens(*tokenizer, "a[X]"), ElementsAre("▁a", "[X]"));
}

TEST(SentencePieceNormalizer, RemovesExtraSpaces) {
  const auto tokenizer = Load({.remove_extra_whitespaces = true});
  EXPECT_THAT(PieceTokens(*tokenizer, "  a   b "), ElementsAre("▁a", "▁", "b"));
  EXPECT_THAT(PieceTokens(*tokenizer, "   "), ElementsAre());
  const auto without_prefix = Load({.add_dummy_prefix = false});
  EXPECT_THAT(PieceTokens(*without_prefix, "ab"), ElementsAre("ab"));
}

TEST(SentencePieceDecoder, DropsTheSpaceInFrontAndControlPieces) {
  const auto tokenizer = Load({});
  EXPECT_EQ(*tokenizer->Decode({1, 9, 9, 2}), "a a");
  EXPECT_EQ(*tokenizer->Decode({9, 0, 3, 4, 3, 6}), "a ⁇ é\uFFFDa");
  EXPECT_EQ(*tokenizer->Decode({9, 0, 6}, {.skip_special = true}), "aa");
  EXPECT_EQ(*Load({.add_dummy_prefix = false})->Decode({9}), " a");
}

TEST(SentencePieceFile, RefusesWhatIsMalformed) {
  const std::string good = ModelFile(SmallVocabulary(), {});
  auto twice = SmallVocabulary();
  twice.push_back({"a"});
  auto unused = SmallVocabulary();
  unused[6].type = PieceType::kUnused;
  for (const auto& [file, message] : std::vector<std::pair<std::string, std::string>>{
           {"", "has no pieces; accepted: a SentencePiece model"},
           {good.substr(0, good.size() - 1), "is no protocol buffer"},
           {Bytes(1, Bytes(1, "\xFF")), "pieces[0] is malformed"},
           {Bytes(1, Bytes(1, "a") + Number(3, 7)), "pieces[0] is malformed"},
           {good + Bytes(2, Number(3, 9)), "trainer_spec is malformed"},
           {good + Bytes(3, Bytes(2, "abc")), "normalizer_spec.precompiled_charsmap: "},
           {ModelFile(twice, {}), "pieces[11] is \"a\"; accepted: a text of its own"},
           {ModelFile(unused, {}), "pieces[6] of a BPE model is marked unused"},
           {ModelFile(SmallVocabulary(), {.type = ModelType::kWord}),
            "trainer_spec.model_type is 3; accepted: 1 (unigram) or 2 (BPE)"}}) {
    const auto tokenizer = Tokenizer::FromSentencePiece(file, "bad.model");
    ASSERT_FALSE(tokenizer.ok()) << message;
    EXPECT_THAT(std::string(tokenizer.status().message()), HasSubstr(message));
  }
}

}  // namespace
}  // namespace sluice
