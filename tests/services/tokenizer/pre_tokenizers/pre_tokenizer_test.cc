#include "services/tokenizer/pre_tokenizers/pre_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "services/tokenizer/text/byte_alphabet.h"
#include "services/tokenizer/text/json_place.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using PreTokens = std::vector<std::string>;

absl::StatusOr<std::unique_ptr<PreTokenizer>> ParsePreTokenizer(const std::string& text) {
  const nlohmann::json json = nlohmann::json::parse(text);
  return PreTokenizerFromJson({&json, "t.json", "pre_tokenizer"});
}

// The pieces as a model that knows nothing of the byte-level alphabet would see them.
PreTokens Split(const std::string& json, std::string_view text) {
  const auto pre_tokenizer = ParsePreTokenizer(json);
  EXPECT_TRUE(pre_tokenizer.ok()) << pre_tokenizer.status();
  if (!pre_tokenizer.ok()) return {};
  RegexScratch scratch;
  PreTokens pieces;
  const absl::Status status = (*pre_tokenizer)->Split({text}, scratch, [&](const Piece& piece) {
    std::string& spelled = pieces.emplace_back();
    if (piece.byte_level) {
      AppendInAlphabet(piece.text, &spelled);
    } else {
      spelled = piece.text;
    }
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
  return pieces;
}

std::string SplitJson(const std::string& pattern, const std::string& behavior, bool invert) {
  return nlohmann::json({{"type", "Split"},
                         {"pattern", nlohmann::json::parse(pattern)},
                         {"behavior", behavior},
                         {"invert", invert}})
      .dump();
}

TEST(SplitPreTokenizer, TreatsDelimitersAsAsked) {
  const std::string text = "the-final--countdown";
  const std::string hyphen = R"({"String": "-"})";
  const auto split = [&](const std::string& behavior) {
    return Split(SplitJson(hyphen, behavior, false), text);
  };
  EXPECT_THAT(split("Removed"), ElementsAre("the", "final", "countdown"));
  EXPECT_THAT(split("Isolated"), ElementsAre("the", "-", "final", "-", "-", "countdown"));
  EXPECT_THAT(split("MergedWithPrevious"), ElementsAre("the-", "final-", "-", "countdown"));
  EXPECT_THAT(split("MergedWithNext"), ElementsAre("the", "-final", "-", "-countdown"));
  EXPECT_THAT(split("Contiguous"), ElementsAre("the", "-", "final", "--", "countdown"));
}

TEST(SplitPreTokenizer, InvertsWhatIsADelimiter) {
  const std::string words = R"({"Regex": "\\w+"})";
  EXPECT_THAT(Split(SplitJson(words, "Removed", true), "a b, c"), ElementsAre("a", "b", "c"));
  EXPECT_THAT(Split(SplitJson(words, "Removed", false), "a b, c"), ElementsAre(" ", ", "));
  EXPECT_THAT(Split(SplitJson(words, "MergedWithPrevious", true), "a b, c"),
              ElementsAre("a ", "b, ", "c"));
}

TEST(SplitPreTokenizer, DelimitersAtTheEnds) {
  const std::string hyphen = R"({"String": "-"})";
  EXPECT_THAT(Split(SplitJson(hyphen, "MergedWithNext", false), "-a-"), ElementsAre("-a", "-"));
  EXPECT_THAT(Split(SplitJson(hyphen, "MergedWithPrevious", false), "-a-"), ElementsAre("-", "a-"));
  EXPECT_THAT(Split(SplitJson(hyphen, "Removed", false), "--"), IsEmpty());
  EXPECT_THAT(Split(SplitJson(hyphen, "Isolated", false), ""), IsEmpty());
}

TEST(DigitsPreTokenizer, SetsNumbersApart) {
  EXPECT_THAT(Split(R"({"type": "Digits", "individual_digits": false})", "a12½b3"),
              ElementsAre("a", "12½", "b", "3"));
  EXPECT_THAT(Split(R"({"type": "Digits", "individual_digits": true})", "a12½b3"),
              ElementsAre("a", "1", "2", "½", "b", "3"));
}

TEST(ByteLevelPreTokenizer, SpellsBytes) {
  EXPECT_THAT(Split(R"({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true})",
                    "it's 2 é\n"),
              ElementsAre("it", "'s", "Ġ2", "ĠÃ©", "Ċ"));
  EXPECT_THAT(Split(R"({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true,
                        "use_regex": false})",
                    "a b"),
              ElementsAre("ĠaĠb"));
  EXPECT_THAT(
      Split(R"({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true})", " a"),
      ElementsAre("Ġa"));
}

TEST(SequencePreTokenizer, LaterStepsSeeTheSpelling) {
  const std::string byte_level =
      R"({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false})";
  const auto sequence = [](const std::string& first, const std::string& second) {
    return R"({"type": "Sequence", "pretokenizers": [)" + first + "," + second + "]}";
  };
  const std::string at_g = SplitJson(R"({"String": "Ġ"})", "Removed", false);
  EXPECT_THAT(Split(sequence(byte_level, at_g), "a b"), ElementsAre("a", "b"));
  EXPECT_THAT(Split(sequence(at_g, byte_level), "a b"), ElementsAre("aĠb"));
  // Spelled twice: the alphabet's space is two bytes, each of which has a character of its own.
  EXPECT_THAT(Split(sequence(byte_level, byte_level), " "), ElementsAre("Äł"));
}

TEST(PreTokenizer, PassesOnTheErrorsOfTheSink) {
  const auto pre_tokenizer = ParsePreTokenizer(R"({"type": "Digits", "individual_digits": true})");
  ASSERT_TRUE(pre_tokenizer.ok());
  RegexScratch scratch;
  int calls = 0;
  const absl::Status status = (*pre_tokenizer)->Split({"123"}, scratch, [&](const Piece&) {
    ++calls;
    return absl::CancelledError("enough");
  });
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(calls, 1);
}

TEST(PreTokenizer, NamesWhatIsWrongInTheFile) {
  const std::pair<std::string, std::string> kCases[] = {
      {R"({"type": "Blank"})", "t.json: pre_tokenizer.type is \"Blank\"; accepted: "},
      {R"({"type": "Sequence", "pretokenizers": [{"type": "X"}]})",
       "t.json: pre_tokenizer.pretokenizers[0].type is \"X\"; accepted: "},
      {R"({"type": "Sequence", "pretokenizers": [null]})",
       "t.json: pre_tokenizer.pretokenizers[0] is null; accepted: "},
      {R"({"type": "Sequence"})",
       "t.json: pre_tokenizer.pretokenizers is null; accepted: an array"},
      {"7", "t.json: pre_tokenizer is 7; accepted: an object"},
      {R"({"type": "Digits", "individual_digits": 1})",
       "t.json: pre_tokenizer.individual_digits is 1; accepted: true or false"},
      {R"({"type": "Split", "pattern": {"Regex": "a"}, "behavior": "Gone", "invert": false})",
       "t.json: pre_tokenizer.behavior is \"Gone\"; accepted: Removed, "},
      {R"({"type": "Split", "pattern": {"Regex": "("}, "behavior": "Removed", "invert": false})",
       "t.json: pre_tokenizer.pattern.Regex: the regular expression \"(\" does not compile: "},
      {R"({"type": "Split", "pattern": "a", "behavior": "Removed", "invert": false})",
       "t.json: pre_tokenizer.pattern is \"a\"; accepted: "},
      {R"({"type": "ByteLevel"})", "t.json: pre_tokenizer.add_prefix_space is missing; accepted: "},
  };
  for (const auto& [json, message] : kCases) {
    const auto parsed = ParsePreTokenizer(json);
    ASSERT_FALSE(parsed.ok()) << json;
    EXPECT_THAT(std::string(parsed.status().message()), HasSubstr(message));
  }
}

TEST(MetaspacePreTokenizer, PrependsAsAsked) {
  const auto split = [](const std::string& scheme, const std::string& text) {
    return Split(
        R"({"type": "Metaspace", "replacement": "_", "prepend_scheme": ")" + scheme + "\"}", text);
  };
  EXPECT_THAT(split("always", "a b  c"), ElementsAre("_a", "_b", "_", "_c"));
  EXPECT_THAT(split("always", " a"), ElementsAre("_a"));
  EXPECT_THAT(split("never", "a b"), ElementsAre("a", "_b"));
  // The text here does not begin where the original one does.
  EXPECT_THAT(split("first", "a b"), ElementsAre("a", "_b"));
  EXPECT_THAT(Split(R"({"type": "Metaspace", "replacement": "_", "split": false})", "a b"),
              ElementsAre("_a_b"));
  EXPECT_THAT(Split(R"({"type": "Metaspace", "replacement": "_", "add_prefix_space": false})", "a"),
              ElementsAre("a"));
}

TEST(CharPreTokenizers, SplitAtTheirCharacters) {
  EXPECT_THAT(Split(R"({"type": "WhitespaceSplit"})", " a,b\u3000 c "), ElementsAre("a,b", "c"));
  EXPECT_THAT(Split(R"({"type": "Whitespace"})", "ab_1, c!?\n"),
              ElementsAre("ab_1", ",", "c", "!?"));
  EXPECT_THAT(Split(R"({"type": "BertPreTokenizer"})", "don't  stop"),
              ElementsAre("don", "'", "t", "stop"));
  EXPECT_THAT(Split(R"({"type": "Punctuation", "behavior": "Contiguous"})", "a!?b「"),
              ElementsAre("a", "!?", "b", "「"));
  EXPECT_THAT(Split(R"({"type": "CharDelimiterSplit", "delimiter": "é"})", "aébéé"),
              ElementsAre("a", "b"));
  EXPECT_THAT(Split(R"({"type": "FixedLength", "length": 2})", "aébcd"),
              ElementsAre("aé", "bc", "d"));
}

TEST(UnicodeScriptsPreTokenizer, SplitsWhereTheScriptChanges) {
  constexpr char kScripts[] = R"({"type": "UnicodeScripts"})";
  EXPECT_THAT(Split(kScripts, "abc где 漢字かな, x"),
              ElementsAre("abc ", "где ", "漢字かな", ", ", "x"));
  EXPECT_THAT(Split(kScripts, "  a"), ElementsAre("a"));
  EXPECT_THAT(Split(kScripts, "  "), IsEmpty());
}

}  // namespace
}  // namespace sluice
