#include "services/tokenizer/decoders/decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "services/tokenizer/text/json_place.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Collector : public DecodeStage {
 public:
  explicit Collector(std::string* out) : out_(*out) {}
  void Append(std::string_view fragment) override { out_ += fragment; }
  void EndToken() override {}
  void Finish() override {}

 private:
  std::string& out_;
};

std::unique_ptr<Decoder> Make(const std::string& json) {
  const nlohmann::json value = nlohmann::json::parse(json);
  auto decoder = DecoderFromJson({&value, "test.json", "decoder"});
  EXPECT_TRUE(decoder.ok()) << decoder.status();
  return *std::move(decoder);
}

// What becomes certain with each token, and at the end.
std::vector<std::string> Pieces(const std::string& json, const std::vector<std::string>& tokens) {
  const std::unique_ptr<Decoder> decoder = Make(json);
  std::string out;
  const auto stage = decoder->Start(std::make_unique<Collector>(&out));
  std::vector<std::string> pieces;
  for (const std::string& token : tokens) {
    stage->Append(token);
    stage->EndToken();
    pieces.push_back(std::exchange(out, {}));
  }
  stage->Finish();
  pieces.push_back(out);
  return pieces;
}

std::string Text(const std::string& json, const std::vector<std::string>& tokens) {
  std::string text;
  for (const std::string& piece : Pieces(json, tokens)) text += piece;
  return text;
}

constexpr char kByteFallback[] = R"({"type": "ByteFallback"})";

TEST(ByteFallbackDecoder, HoldsARunBackUntilNoByteCanSpoilIt) {
  EXPECT_THAT(Pieces(kByteFallback, {"<0xC3>", "<0xA9>", "<0x41>", "x"}),
              ElementsAre("", "", "", "éAx", ""));
  EXPECT_THAT(Pieces(kByteFallback, {"<0xC3>", "<0xA9>"}), ElementsAre("", "", "é"));
}

TEST(ByteFallbackDecoder, SpoilsTheWholeRun) {
  EXPECT_THAT(Pieces(kByteFallback, {"<0x41>", "<0xC3>", "<0x41>", "<0x42>", "x", "<0x42>"}),
              ElementsAre("", "", "\uFFFD\uFFFD\uFFFD", "\uFFFD", "x", "", "B"));
  EXPECT_EQ(Text(kByteFallback, {"<0x41>", "<0xE2>", "<0x82>"}), "\uFFFD\uFFFD\uFFFD");
}

TEST(ByteFallbackDecoder, LeavesOtherTokensAlone) {
  EXPECT_THAT(Pieces(kByteFallback, {"<0x", "<0x4>", "<0x411>", "<0xGG>"}),
              ElementsAre("<0x", "<0x4>", "<0x411>", "<0xGG>", ""));
  EXPECT_EQ(Text(kByteFallback, {"<0x+A>"}), "\n");
}

TEST(ReplaceDecoder, HoldsBackWhatMayBecomeAMatch) {
  const std::string fused =
      R"({"type": "Sequence", "decoders": [{"type": "Fuse"},
          {"type": "Replace", "pattern": {"String": "abab"}, "content": "-"}]})";
  EXPECT_THAT(Pieces(fused, {"xab", "a", "cab", "ababab"}), ElementsAre("x", "", "abac", "--", ""));
  EXPECT_THAT(Pieces(fused, {"ab", "a"}), ElementsAre("", "", "aba"));
}

TEST(ReplaceDecoder, LooksWithinEachToken) {
  EXPECT_EQ(
      Text(R"({"type": "Replace", "pattern": {"String": "ab"}, "content": "-"})", {"a", "b", "ab"}),
      "ab-");
  EXPECT_EQ(
      Text(R"({"type": "Replace", "pattern": {"Regex": "a+"}, "content": "-"})", {"aab", "", "a"}),
      "-b-");
}

TEST(StripDecoder, StripsBothEndsOfEachToken) {
  constexpr char kStrip[] = R"({"type": "Strip", "content": "_", "start": 1, "stop": 2})";
  EXPECT_EQ(Text(kStrip, {"__a____", "_", "___", "b"}), "_a__b");
}

TEST(StripDecoder, HoldsBackNoMoreThanItMayStrip) {
  const std::string fused = R"({"type": "Sequence", "decoders": [{"type": "Fuse"},
      {"type": "Strip", "content": " ", "start": 1, "stop": 1}]})";
  EXPECT_THAT(Pieces(fused, {" ", " a ", " ", "b "}), ElementsAre("", " a", " ", " b", ""));
}

TEST(MetaspaceDecoder, DropsTheSpacesOfTheFirstToken) {
  EXPECT_THAT(Pieces(R"({"type": "Metaspace", "replacement": "▁"})", {"▁a▁b", "▁c"}),
              ElementsAre("ab", " c", ""));
  EXPECT_EQ(
      Text(R"({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "never"})", {"▁a", "▁c"}),
      " a c");
}

TEST(WordPieceDecoder, JoinsWordsAndCleansThemUp) {
  EXPECT_THAT(Pieces(R"({"type": "WordPiece", "prefix": "##", "cleanup": true})",
                     {"##do", "##n", "'t", "n't", "##!", "."}),
              ElementsAre("##do", "n", " 't", "n't", "!", ".", ""));
}

TEST(BpeDecoder, KnowsTheLastWordOnlyAtTheEnd) {
  EXPECT_THAT(Pieces(R"({"type": "BPEDecoder", "suffix": "</w>"})", {"a", "b</w>", "c</w>"}),
              ElementsAre("a", "b", " c", ""));
}

TEST(CtcDecoder, DropsRepeatedAndPaddingTokens) {
  EXPECT_EQ(Text(R"({"type": "CTC", "pad_token": "<pad>", "word_delimiter_token": "|",
                     "cleanup": true})",
                 {"h", "h", "i", "<pad>", "i", "|", "|", "y"}),
            "hii y");
}

TEST(Decoder, SaysWhatATokenStandsFor) {
  const auto decoder = Make(R"({"type": "Sequence", "decoders": [
      {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"},
      {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]})");
  EXPECT_EQ(decoder->TokenBytes("▁a"), " a");
  EXPECT_EQ(decoder->TokenBytes("<0xE2>"), "\xE2");
}

TEST(Decoder, RefusesWhatIsMalformed) {
  for (const auto& [json, message] : std::vector<std::pair<std::string, std::string>>{
           {R"({"type": "Strip", "content": "ab", "start": 0, "stop": 0})",
            "decoder.content is \"ab\"; accepted: a character"},
           {R"({"type": "Replace", "pattern": {"Regex": "("}, "content": ""})", "does not compile"},
           {R"({"type": "WordPiece", "cleanup": true})", "decoder.prefix is "},
           {R"({"type": "Metaspace", "replacement": "_", "prepend_scheme": "x"})",
            "accepted: always, never or first"}}) {
    const nlohmann::json value = nlohmann::json::parse(json);
    const auto decoder = DecoderFromJson({&value, "test.json", "decoder"});
    ASSERT_FALSE(decoder.ok()) << json;
    EXPECT_THAT(std::string(decoder.status().message()), HasSubstr(message));
  }
}

}  // namespace
}  // namespace sluice
