// Long texts: whatever a tokenizer is made of, it asks every few thousand bytes whether its work goes
// on, and ends where it does not.
#include "services/tokenizer/text/pace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "services/tokenizer/normalizers/normalizer.h"
#include "services/tokenizer/pre_tokenizers/pre_tokenizer.h"
#include "services/tokenizer/text/json_place.h"
#include "services/tokenizer/text/mapped_text.h"
#include "services/tokenizer/tokenizer.h"
#include "tests/services/tokenizer/test_tokenizers.h"

namespace sluice {
namespace {

constexpr size_t kLongBytes = size_t{1} << 20;
// As many bytes at most between two looks.
constexpr size_t kMostBetween = size_t{128} << 10;

std::string LongText(const std::string& part) {
  std::string text;
  while (text.size() < kLongBytes) text += part;
  return text;
}

// Counts its looks, and says no from the one with this number on; 0: never.
struct Looks {
  explicit Looks(int last = 0)
      : checkpoint([this, last] {
          ++count;
          return last == 0 || count < last;
        }) {}
  Looks(const Looks&) = delete;

  int count = 0;
  const Pace::Checkpoint checkpoint;
};

struct NormalizerCase {
  std::string json;
  std::string part;
  bool needs_map = false;  // without one it copies all at once
};

// Replaces nothing: a trie of one node.
std::string PrecompiledJson() {
  return nlohmann::json(
             {{"type", "Precompiled"},
              {"precompiled_charsmap", absl::Base64Escape(std::string("\x04\0\0\0\0\0\0\0", 8))}})
      .dump();
}

std::vector<NormalizerCase> NormalizerCases() {
  return {
      {R"({"type": "Lowercase"})", "HeLLo WoRLD "},
      {R"({"type": "StripAccents"})", "e\u0301 "},
      {R"({"type": "Nmt"})", "a\tb "},
      {R"({"type": "Strip", "strip_left": true, "strip_right": false})", " \n"},
      {R"({"type": "Strip", "strip_left": false, "strip_right": true})", " \n"},
      {R"({"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
           "lowercase": true, "strip_accents": true})",
       "\u4E2D\u00C4\t"},
      {R"({"type": "NFC"})", "e\u0301"},
      {R"({"type": "NFD"})", "\u00E9"},
      {R"({"type": "NFKC"})", "\uFB01 x"},
      {R"({"type": "NFKD"})", "\uFB01"},
      // One run of marks, out of order.
      {R"({"type": "NFC"})", "\u0301\u0323"},
      {R"({"type": "Replace", "pattern": {"String": "a"}, "content": "bc"})", "aax"},
      {R"({"type": "Replace", "pattern": {"Regex": "a+"}, "content": "bc"})", "aax"},
      {R"({"type": "ByteLevel"})", "a b"},
      {R"({"type": "Prepend", "prepend": "x"})", "a", true},
      {R"({"type": "Append", "append": "x"})", "a", true},
      {PrecompiledJson(), "a\u0301\u0323 "},
      // One grapheme.
      {PrecompiledJson(), "\u0301"},
      {R"({"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "x"},
           {"type": "Replace", "pattern": {"String": "a"}, "content": "b"}]})",
       "a"},
  };
}

TEST(Pace, NormalizersLookAndEnd) {
  for (const NormalizerCase& test : NormalizerCases()) {
    const nlohmann::json json = nlohmann::json::parse(test.json);
    const auto normalizer = NormalizerFromJson({&json, "test.json", "normalizer"});
    ASSERT_TRUE(normalizer.ok()) << normalizer.status();
    const std::string text = LongText(test.part);
    for (const bool with_map : {false, true}) {
      if (test.needs_map && !with_map) continue;
      const auto normalize = [&](Looks& looks, Pace& pace) {
        std::optional<SourceMap> map;
        if (with_map) map.emplace(text, 0);
        MappedText mapped(text, std::move(map), true, &pace);
        (*normalizer)->Normalize(&mapped);
        (void)looks;
      };
      Looks all;
      Pace to_its_end(&all.checkpoint);
      normalize(all, to_its_end);
      EXPECT_GE(all.count, static_cast<int>(text.size() / kMostBetween))
          << test.json << (with_map ? " with a map" : "");
      EXPECT_TRUE(to_its_end.status().ok());
      for (const int last : {1, all.count / 2 + 1, all.count}) {
        Looks some(last);
        Pace stopped(&some.checkpoint);
        normalize(some, stopped);
        EXPECT_EQ(some.count, last) << test.json;
        EXPECT_EQ(stopped.status().code(), absl::StatusCode::kCancelled);
      }
    }
  }
}

TEST(Pace, PreTokenizersLookAndEndWhereTheyFindNothing) {
  const auto nothing = [](const Piece&) { return absl::OkStatus(); };
  for (const auto& [text_json, part] : std::vector<std::pair<std::string, std::string>>{
           {R"({"type": "WhitespaceSplit"})", " "},
           {R"({"type": "Whitespace"})", " "},
           {R"({"type": "BertPreTokenizer"})", " "},
           {R"({"type": "CharDelimiterSplit", "delimiter": "x"})", "x"},
           {R"({"type": "Digits", "individual_digits": false})", "1"},
           {R"({"type": "UnicodeScripts"})", " "},
           {R"({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always",
                "split": false})",
            " "},
           {R"({"type": "ByteLevel", "add_prefix_space": true, "use_regex": true})", "a b"},
           {R"({"type": "Split", "pattern": {"Regex": "a"}, "behavior": "Removed",
                "invert": false})",
            "a"}}) {
    const nlohmann::json json = nlohmann::json::parse(text_json);
    const auto pre_tokenizer = PreTokenizerFromJson({&json, "test.json", "pre_tokenizer"});
    ASSERT_TRUE(pre_tokenizer.ok()) << pre_tokenizer.status();
    const std::string text = LongText(part);
    const SourceMap map(text, 0);
    const auto split = [&](Pace& pace) {
      RegexScratch scratch;
      return (*pre_tokenizer)->Split({.text = text, .map = &map, .pace = &pace}, scratch, nothing);
    };
    Looks all;
    Pace to_its_end(&all.checkpoint);
    EXPECT_TRUE(split(to_its_end).ok());
    EXPECT_GE(all.count, static_cast<int>(text.size() / kMostBetween)) << text_json;
    for (const int last : {1, all.count / 2 + 1}) {
      Looks some(last);
      Pace stopped(&some.checkpoint);
      EXPECT_EQ(split(stopped).code(), absl::StatusCode::kCancelled) << text_json;
      EXPECT_EQ(some.count, last) << text_json;
    }
  }
}

// Wherever the work on a text ends, nothing of it is left: the same tokenizer goes on as if it had
// not been asked.
TEST(Pace, ATextThatIsGivenUpLeavesNothingBehind) {
  const testing::TokenizerParts words = {
      .added_tokens = R"([{"id": 300, "content": "<end>", "single_word": false, "lstrip": false,
                           "rstrip": false, "normalized": false, "special": true}])",
      .merges = {{"a", "b"}, {"ab", "c"}, {"c", "d"}}};
  testing::TokenizerParts one_word = words;
  one_word.pre_tokenizer =
      R"({"type": "ByteLevel", "add_prefix_space": false, "use_regex": false})";
  testing::TokenizerParts normalized = words;
  normalized.normalizer = R"({"type": "NFKC"})";
  for (const testing::TokenizerParts& parts : {words, one_word, normalized}) {
    const std::string text = testing::RandomText(1, 20'000, {"abcd", "<end>", "<e", " abc"});
    std::string shorter;  // one word, of more letters than are merged by scanning
    for (int i = 0; i < 20; ++i) shorter += "abcd";
    for (const bool offsets : {false, true}) {
      Looks all;
      const auto expected = testing::SmallTokenizer(parts)->Encode(
          text, {.offsets = offsets, .checkpoint = &all.checkpoint});
      ASSERT_TRUE(expected.ok()) << expected.status();
      ASSERT_GE(all.count, 4);
      for (int last = 1; last <= all.count; last += 1 + all.count / 10) {
        const auto tokenizer = testing::SmallTokenizer(parts);  // one that remembers no word
        Looks some(last);
        const auto ended =
            tokenizer->Encode(text, {.offsets = offsets, .checkpoint = &some.checkpoint});
        EXPECT_EQ(ended.status().code(), absl::StatusCode::kCancelled) << last;
        EXPECT_EQ(some.count, last);
        const auto other = tokenizer->Encode(shorter, {.offsets = offsets});
        ASSERT_TRUE(other.ok());
        ASSERT_EQ(other->ids, testing::SmallTokenizer(parts)->Encode(shorter)->ids);
        const auto again = tokenizer->Encode(text, {.offsets = offsets});
        ASSERT_TRUE(again.ok());
        ASSERT_EQ(again->ids, expected->ids) << "after " << last;
        ASSERT_EQ(again->offsets, expected->offsets) << "after " << last;
      }
      Looks one(1);
      EXPECT_EQ(testing::SmallTokenizer(parts)
                    ->Decode(expected->ids, {.checkpoint = &one.checkpoint})
                    .status()
                    .code(),
                absl::StatusCode::kCancelled);
    }
  }
}

TEST(Pace, LooksWhereNoAddedTokenBegins) {
  const auto tokenizer = testing::SmallTokenizer(
      {.added_tokens = R"([{"id": 300, "content": "<end>", "single_word": false, "lstrip": false,
                            "rstrip": false, "normalized": false, "special": true}])"});
  for (const char* part : {"a", "<", "<en"}) {
    const std::string text = LongText(part);
    Looks some(1);
    EXPECT_EQ(tokenizer->Encode(text, {.checkpoint = &some.checkpoint}).status().code(),
              absl::StatusCode::kCancelled);
    EXPECT_EQ(some.count, 1) << part;
  }
}

}  // namespace
}  // namespace sluice
