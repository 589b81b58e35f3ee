#include "services/tokenizer/normalizers/normalizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "services/tokenizer/text/json_place.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<std::unique_ptr<Normalizer>> Parse(const std::string& json) {
  const nlohmann::json value = nlohmann::json::parse(json);
  return NormalizerFromJson({&value, "test.json", "normalizer"});
}

std::string Normalize(const std::string& json, const std::string& text) {
  const auto normalizer = Parse(json);
  EXPECT_TRUE(normalizer.ok()) << normalizer.status();
  MappedText mapped(text, std::nullopt);
  (*normalizer)->Normalize(&mapped);
  MappedText with_map(text, SourceMap(text, 0));
  (*normalizer)->Normalize(&with_map);
  EXPECT_EQ(mapped.text(), with_map.text());
  return std::string(mapped.text());
}

// Which bytes of `text` each byte of the result comes from.
std::vector<ByteRange> Sources(const std::string& json, const std::string& text) {
  const auto normalizer = Parse(json);
  EXPECT_TRUE(normalizer.ok()) << normalizer.status();
  MappedText mapped(text, SourceMap(text, 0));
  (*normalizer)->Normalize(&mapped);
  std::vector<ByteRange> sources;
  for (size_t i = 0; i < mapped.text().size(); ++i)
    sources.push_back(mapped.map()->Range(i, i + 1));
  return sources;
}

TEST(LowercaseNormalizer, KnowsMoreThanAscii) {
  EXPECT_EQ(Normalize(R"({"type": "Lowercase"})", "ÀBC ΣΑΣ İẞ"), "àbc σασ i\u0307ß");
  EXPECT_THAT(Sources(R"({"type": "Lowercase"})", "aİ"),
              ElementsAre(ByteRange{0, 1}, ByteRange{1, 3}, ByteRange{1, 3}, ByteRange{1, 3}));
}

TEST(StripNormalizer, StripsTheSidesAskedFor) {
  EXPECT_EQ(
      Normalize(R"({"type": "Strip", "strip_left": true, "strip_right": false})", " \n\u3000a "),
      "a ");
  EXPECT_EQ(Normalize(R"({"type": "Strip", "strip_left": true, "strip_right": true})", " \t "), "");
}

TEST(StripAccentsNormalizer, TakesMarksButDecomposesNothing) {
  EXPECT_EQ(Normalize(R"({"type": "StripAccents"})", "e\u0301é"), "eé");
}

TEST(PrependNormalizer, BelongsToTheFirstCharacter) {
  constexpr char kPrepend[] = R"({"type": "Prepend", "prepend": "__"})";
  EXPECT_EQ(Normalize(kPrepend, "éa"), "__éa");
  EXPECT_EQ(Normalize(kPrepend, ""), "");
  EXPECT_EQ(Sources(kPrepend, "éa")[1], (ByteRange{0, 2}));
}

TEST(AppendNormalizer, BelongsToTheLastCharacter) {
  constexpr char kAppend[] = R"({"type": "Append", "append": "_"})";
  EXPECT_EQ(Normalize(kAppend, "aé"), "aé_");
  EXPECT_EQ(Sources(kAppend, "aé").back(), (ByteRange{1, 3}));
}

TEST(ReplaceNormalizer, ReplacesStringsAndMatches) {
  EXPECT_EQ(Normalize(R"({"type": "Replace", "pattern": {"String": "."}, "content": "!"})", "a.b."),
            "a!b!");
  constexpr char kSpaces[] =
      R"({"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "_"})";
  EXPECT_EQ(Normalize(kSpaces, "a b   c"), "a b_c");
  EXPECT_EQ(Sources(kSpaces, "a   c")[1], (ByteRange{1, 4}));
}

TEST(ByteLevelNormalizer, SpellsBytes) {
  EXPECT_EQ(Normalize(R"({"type": "ByteLevel"})", "a é"), "aĠÃ©");
}

TEST(NmtNormalizer, DropsControlsAndBlanksTheRest) {
  EXPECT_EQ(Normalize(R"({"type": "Nmt"})", "a\x01\tb\u200Bc\uFEFF"), "a b c ");
}

TEST(BertNormalizer, CleansAndSetsIdeographsApart) {
  EXPECT_EQ(Normalize(R"({"type": "BertNormalizer", "clean_text": true, "lowercase": true,
                          "handle_chinese_chars": true, "strip_accents": null})",
                      "É\n人A"),
            "e  人 a");
}

// A trie that replaces "A" by "bc" and "AA" by "x": unit 0 leads by its offset to the children.
std::string SmallCharsMap() {
  // Each node sits at its parent's offset xor its byte; the value of a node at its own offset.
  const uint32_t kLeaf = 1u << 8;
  std::vector<uint32_t> units(512, 0);
  const auto offset = [](uint32_t value) { return value << 10; };
  units[0] = offset(1);                                    // children of the root: 1 ^ byte
  units[1 ^ 'A'] = 'A' | kLeaf | offset(200 ^ (1 ^ 'A'));  // its own at 200
  units[200] = 1u << 31 | 0;                               // "bc"
  units[200 ^ 'A'] = 'A' | kLeaf | offset(300 ^ (200 ^ 'A'));
  units[300] = 1u << 31 | 3;  // "x"
  std::string bytes;
  const auto put = [&](uint32_t unit) {
    for (int i = 0; i < 4; ++i) bytes.push_back(static_cast<char>(unit >> (8 * i)));
  };
  put(static_cast<uint32_t>(4 * units.size()));
  for (const uint32_t unit : units) put(unit);
  return bytes + std::string("bc\0x\0", 5);
}

TEST(PrecompiledNormalizer, ReplacesByTheShortestBeginningOfAGrapheme) {
  const std::string json = R"({"type": "Precompiled", "precompiled_charsmap": ")" +
                           absl::Base64Escape(SmallCharsMap()) + "\"}";
  EXPECT_EQ(Normalize(json, "xAy"), "xbcy");
  EXPECT_EQ(Normalize(json, "AA"), "bcbc");
  // The mark belongs to the grapheme, all of which is replaced.
  EXPECT_EQ(Normalize(json, "A\u0301z"), "bcz");
}

TEST(Normalizer, RefusesWhatIsMalformed) {
  for (const auto& [json, message] : std::vector<std::pair<std::string, std::string>>{
           {R"({"type": "Precompiled", "precompiled_charsmap": "AAAA"})",
            "the character map has 3"},
           {R"({"type": "Precompiled", "precompiled_charsmap": "/////w=="})", "says that its trie"},
           {R"({"type": "Precompiled"})", "accepted: a character map in base64"},
           {R"({"type": "Prepend"})", "normalizer.prepend is "},
           {R"({"type": "Replace", "pattern": "a", "content": ""})", "normalizer.pattern is "},
           {R"({"type": "Upper"})", "accepted: Append, BertNormalizer"}}) {
    const auto normalizer = Parse(json);
    ASSERT_FALSE(normalizer.ok()) << json;
    EXPECT_THAT(std::string(normalizer.status().message()), HasSubstr(message));
  }
}

}  // namespace
}  // namespace sluice
