#include "services/tokenizer/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <time.h>

#include <string>
#include <thread>
#include <vector>

#include "tests/services/tokenizer/test_tokenizers.h"
#include "tests/testing/test_data.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::SmallTokenizer;

constexpr char kSpecial[] =
    R"([{"id": 256, "content": "<|end|>", "single_word": false, "lstrip": false, "rstrip": false,
         "normalized": false, "special": true},
        {"id": 257, "content": "<word>", "single_word": false, "lstrip": false, "rstrip": false,
         "normalized": false, "special": false}])";

std::vector<TokenId> Ids(const Tokenizer& tokenizer, std::string_view text,
                         const EncodeOptions& options = {}) {
  const auto encoding = tokenizer.Encode(text, options);
  EXPECT_TRUE(encoding.ok()) << encoding.status();
  return encoding.ok() ? encoding->ids : std::vector<TokenId>();
}

TEST(Tokenizer, RefusesInvalidUtf8WithItsPlace) {
  const auto tokenizer = SmallTokenizer({});
  const auto encoding = tokenizer->Encode("four\xFF");
  ASSERT_FALSE(encoding.ok());
  EXPECT_EQ(encoding.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(encoding.status().message()), HasSubstr("not UTF-8 at byte 4"));
}

TEST(Tokenizer, RefusesTextsAboveTheLimit) {
  const auto tokenizer = SmallTokenizer({});
  EXPECT_TRUE(tokenizer->Encode("1234", {.max_bytes = 4}).ok());
  const auto encoding = tokenizer->Encode("12345", {.max_bytes = 4});
  EXPECT_EQ(encoding.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(encoding.status().message()), HasSubstr("5 bytes; accepted: at most 4"));
}

TEST(Tokenizer, RefusesIdsWithoutATokenNamingTheFirst) {
  const auto tokenizer = SmallTokenizer({});
  for (const TokenId bad : {256, -1, 1 << 30}) {
    const auto text = tokenizer->Decode({65, bad, 9999});
    EXPECT_EQ(text.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(text.status().message()),
                HasSubstr("token id " + std::to_string(bad) + " at position 1"));
    EXPECT_EQ(tokenizer->Decode({65, bad, 66}, {.skip_unknown = true}).value(), "AB");
  }
}

TEST(Tokenizer, EmptyTextHasNoTokens) {
  const auto tokenizer = SmallTokenizer({});
  EXPECT_THAT(Ids(*tokenizer, ""), IsEmpty());
  EXPECT_EQ(tokenizer->Decode({}).value(), "");
}

TEST(Tokenizer, SpecialTokensInTextAreParsedOnlyWhereTrusted) {
  const auto tokenizer = SmallTokenizer({.added_tokens = kSpecial});
  EXPECT_THAT(Ids(*tokenizer, "a<|end|><word>"), ElementsAre('a', 256, 257));
  EXPECT_THAT(Ids(*tokenizer, "a<|end|><word>", {.parse_special = false}),
              ElementsAre('a', '<', '|', 'e', 'n', 'd', '|', '>', 257));
}

TEST(Tokenizer, NoTextBecomesASpecialTokenWhereNotTrusted) {
  // The model's own vocabulary has the special token, by merges and as a whole piece.
  const auto tokenizer = SmallTokenizer(
      {.added_tokens = R"([{"id": 257, "content": "<s>", "single_word": false, "lstrip": false,
                            "rstrip": false, "normalized": false, "special": true}])",
       .merges = {{"<", "s"}, {"<s", ">"}},
       .model_settings = R"("ignore_merges": true)"});
  EXPECT_THAT(Ids(*tokenizer, "<s>"), ElementsAre(257));
  EXPECT_THAT(Ids(*tokenizer, "<s>", {.parse_special = false}),
              ::testing::Not(::testing::Contains(257)));
}

TEST(Tokenizer, DecodesWithAndWithoutSpecialTokens) {
  const auto tokenizer = SmallTokenizer({.added_tokens = kSpecial});
  EXPECT_EQ(tokenizer->Decode({'a', 256, 257, 'b'}).value(), "a<|end|><word>b");
  EXPECT_EQ(tokenizer->Decode({'a', 256, 257, 'b'}, {.skip_special = true}).value(), "a<word>b");
}

TEST(Tokenizer, KnowsItsVocabulary) {
  const auto tokenizer = SmallTokenizer({.added_tokens = kSpecial});
  EXPECT_EQ(tokenizer->vocabulary_size(), 258);
  EXPECT_EQ(tokenizer->id_limit(), 258);
  EXPECT_EQ(tokenizer->TokenText(' '), "Ġ");
  EXPECT_EQ(tokenizer->TokenBytes(' '), " ");
  EXPECT_EQ(tokenizer->TokenBytes(0xC3), "\xC3");
  EXPECT_EQ(tokenizer->TokenText(256), "<|end|>");
  EXPECT_EQ(tokenizer->FindToken("Ġ"), ' ');
  EXPECT_EQ(tokenizer->FindToken("<word>"), 257);
  EXPECT_EQ(tokenizer->FindToken("nothing"), std::nullopt);
  EXPECT_THAT(tokenizer->SpecialIds(), ElementsAre(256));
  EXPECT_FALSE(tokenizer->IsSpecial(-1));
  EXPECT_EQ(tokenizer->eos_id(), std::nullopt);
}

TEST(Tokenizer, FindsBeginningAndEndByItsConfiguration) {
  const std::string json = testing::SmallTokenizerJson({.added_tokens = kSpecial});
  const auto tokenizer =
      Tokenizer::FromJson(json, "t.json", {.bos_token = "<none>", .eos_token = "<|end|>"});
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ((*tokenizer)->eos_id(), 256);
  EXPECT_EQ((*tokenizer)->bos_id(), std::nullopt);
}

TEST(Tokenizer, OffsetsAreWholeCharactersOfTheOriginal) {
  const auto tokenizer =
      SmallTokenizer({.added_tokens = kSpecial, .normalizer = R"({"type": "NFC"})"});
  const auto encoding = tokenizer->Encode("e\u0301<|end|>\U0001F600", {.offsets = true});
  ASSERT_TRUE(encoding.ok()) << encoding.status();
  EXPECT_THAT(encoding->offsets,
              ElementsAre(ByteRange{0, 3}, ByteRange{0, 3}, ByteRange{3, 10}, ByteRange{10, 14},
                          ByteRange{10, 14}, ByteRange{10, 14}, ByteRange{10, 14}));
}

TEST(Tokenizer, OffsetsOfAddedAndTrimmedTokens) {
  const auto tokenizer = SmallTokenizer({.added_tokens = kSpecial,
                                         .post_processor = R"({"type": "Sequence", "processors": [
           {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true},
           {"type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "E", "type_id": 0}},
                       {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [], "special_tokens": {"E": {"id": "E", "ids": [256], "tokens": ["E"]}}}]})",
                                         .merges = {{"Ġ", "b"}}});
  const auto encoding = tokenizer->Encode("a b", {.offsets = true});
  ASSERT_TRUE(encoding.ok()) << encoding.status();
  EXPECT_THAT(encoding->ids, ElementsAre(256, 'a', 256 + 0 /* Ġb */));
  EXPECT_THAT(encoding->offsets, ElementsAre(ByteRange{}, ByteRange{0, 1}, ByteRange{2, 3}));
}

// ---- Pairs of texts ----

constexpr char kFrames[] = R"([{"id": 256, "content": "<cls>", "single_word": false,
                                "lstrip": false, "rstrip": false, "normalized": false,
                                "special": true},
                               {"id": 257, "content": "<sep>", "single_word": false,
                                "lstrip": false, "rstrip": false, "normalized": false,
                                "special": true}])";

struct PairCase {
  const char* name;
  const char* post_processor;
  std::vector<TokenId> ids;  // of "ab" and "c"
  size_t second_begin;
};

TEST(Tokenizer, JoinsPairsAsItsPostProcessorSays) {
  const PairCase cases[] = {
      {"none", "null", {'a', 'b', 'c'}, 2},
      {"BERT",
       R"({"type": "BertProcessing", "cls": ["<cls>", 256], "sep": ["<sep>", 257]})",
       {256, 'a', 'b', 257, 'c', 257},
       4},
      {"RoBERTa",
       R"({"type": "RobertaProcessing", "cls": ["<cls>", 256], "sep": ["<sep>", 257],
           "trim_offsets": true, "add_prefix_space": false})",
       {256, 'a', 'b', 257, 257, 'c', 257},
       7},
      {"template",
       R"({"type": "TemplateProcessing",
           "single": [{"SpecialToken": {"id": "<cls>", "type_id": 0}},
                      {"Sequence": {"id": "A", "type_id": 0}}],
           "pair": [{"SpecialToken": {"id": "<cls>", "type_id": 0}},
                    {"Sequence": {"id": "A", "type_id": 0}},
                    {"SpecialToken": {"id": "<sep>", "type_id": 0}},
                    {"Sequence": {"id": "B", "type_id": 1}},
                    {"SpecialToken": {"id": "<sep>", "type_id": 1}}],
           "special_tokens": {"<cls>": {"id": "<cls>", "ids": [256], "tokens": ["<cls>"]},
                              "<sep>": {"id": "<sep>", "ids": [257], "tokens": ["<sep>"]}}})",
       {256, 'a', 'b', 257, 'c', 257},
       4},
  };
  for (const PairCase& each : cases) {
    SCOPED_TRACE(each.name);
    const auto tokenizer =
        SmallTokenizer({.added_tokens = kFrames, .post_processor = each.post_processor});
    const auto pair = tokenizer->EncodePair("ab", "c");
    ASSERT_TRUE(pair.ok()) << pair.status();
    EXPECT_EQ(pair->ids, each.ids);
    EXPECT_EQ(pair->second_begin, each.second_begin);
  }
}

TEST(Tokenizer, CutsTextsAndKeepsWhatIsPutAroundThem) {
  const auto tokenizer = SmallTokenizer(
      {.added_tokens = kFrames,
       .post_processor =
           R"({"type": "BertProcessing", "cls": ["<cls>", 256], "sep": ["<sep>", 257]})"});
  EXPECT_THAT(Ids(*tokenizer, "abcdef", {.max_tokens = 5}), ElementsAre(256, 'a', 'b', 'c', 257));
  EXPECT_THAT(Ids(*tokenizer, "abc", {.max_tokens = 5}), ElementsAre(256, 'a', 'b', 'c', 257));
  // The longer text of a pair first.
  const auto pair = tokenizer->EncodePair("abcdef", "gh", {.max_tokens = 7});
  ASSERT_TRUE(pair.ok()) << pair.status();
  EXPECT_THAT(pair->ids, ElementsAre(256, 'a', 'b', 257, 'g', 'h', 257));
}

TEST(Tokenizer, NormalizedAddedTokensAreFoundInNormalizedText) {
  const auto tokenizer = SmallTokenizer(
      {.added_tokens = R"([{"id": 256, "content": "e\u0301", "single_word": false, "lstrip": false,
                            "rstrip": false, "normalized": true, "special": false}])",
       .normalizer = R"({"type": "NFC"})"});
  EXPECT_THAT(Ids(*tokenizer, "\u00e9"), ElementsAre(256));
  EXPECT_THAT(Ids(*tokenizer, "e\u0301"), ElementsAre(256));
}

TEST(Tokenizer, ManyThreadsEncodeAlike) {
  const auto tokenizer = SmallTokenizer({.added_tokens = kSpecial, .merges = {{"a", "b"}}});
  const std::string text = testing::RandomText(1, 3000, {"ab", "<|end|>"});
  const std::vector<TokenId> expected = Ids(*tokenizer, text);
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 20; ++j) {
        EXPECT_EQ(Ids(*tokenizer, text), expected);
        EXPECT_EQ(tokenizer->Decode(expected).value(), text);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Tokenizer, StorytellerGivesTextsBack) {
  const auto tokenizer = testing::LoadOrFail(testing::ProjectPath("models/storyteller"));
  ASSERT_NE(tokenizer, nullptr);
  const std::optional<TokenId> end = tokenizer->FindToken("<|endoftext|>");
  ASSERT_TRUE(end.has_value());
  EXPECT_EQ(tokenizer->eos_id(), end);
  for (uint32_t seed = 0; seed < 50; ++seed) {
    const std::string text = testing::RandomText(seed, 100, {"Once upon a time", ", "});
    const std::vector<TokenId> ids = Ids(*tokenizer, text);
    ASSERT_FALSE(ids.empty());
    EXPECT_EQ(ids.front(), *end);
    EXPECT_EQ(tokenizer->Decode(ids, {.skip_special = true}).value(), text) << seed;
  }
}

// Seconds of this thread's work, whatever else the machine does.
double CpuSeconds() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr double kMaxSeconds = 100;
#else
constexpr double kMaxSeconds = 5;
#endif

class WorstCases : public ::testing::TestWithParam<std::string> {};

TEST_P(WorstCases, AMegabyteTakesNoTime) {
  std::unique_ptr<const Tokenizer> tokenizer;
  if (GetParam() == "small") {
    tokenizer = SmallTokenizer({.normalizer = R"({"type": "NFC"})",
                                .merges = {{"a", "a"}, {"aa", "aa"}, {"aaaa", "a"}, {"Ġ", "Ġ"}}});
  } else {
    const std::string name = "tokenizers/" + GetParam();
    SLUICE_SKIP_WITHOUT(name);
    tokenizer = testing::LoadOrFail(*testing::TestData(name));
  }
  ASSERT_NE(tokenizer, nullptr);
  constexpr size_t kBytes = 1 << 20;
  std::string letters;
  for (uint32_t i = 0; letters.size() < kBytes; ++i) {
    letters += static_cast<char>('a' + (i * 2654435761u >> 20) % 26);
  }
  std::vector<std::string> texts = {letters, std::string(kBytes, ' ') + "x"};
  for (const std::string unit : {"a", " ", "0", "\u0300", "\u0300\u0316", "\n   ", "!", "'",
                                 "\u4e00", "<", "\r", "a\u0301", "\U0001F600"}) {
    std::string& text = texts.emplace_back();
    while (text.size() < kBytes) text += unit;
  }
  for (const std::string& text : texts) {
    const double start = CpuSeconds();
    const auto encoding = tokenizer->Encode(text, {.add_special = false});
    ASSERT_TRUE(encoding.ok()) << encoding.status();
    ASSERT_FALSE(encoding->ids.empty());
    const auto decoded = tokenizer->Decode(encoding->ids);
    EXPECT_LT(CpuSeconds() - start, kMaxSeconds) << text.substr(0, 20);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_FALSE(decoded->empty());
  }
}

INSTANTIATE_TEST_SUITE_P(Tokenizers, WorstCases,
                         ::testing::Values("small", "gpt2", "llama3", "qwen2"));

TEST(Encode, ReplacesInvalidBytesWhereAsked) {
  const auto tokenizer = testing::SmallTokenizer({});
  const std::string text =
      "a\xFF"
      "b";
  EXPECT_EQ(tokenizer->Encode(text).status().code(), absl::StatusCode::kInvalidArgument);
  const auto encoding = tokenizer->Encode(text, {.offsets = true, .replace_invalid = true});
  ASSERT_TRUE(encoding.ok()) << encoding.status();
  EXPECT_EQ(encoding->ids, tokenizer->Encode("a\uFFFDb")->ids);
  EXPECT_EQ(encoding->offsets.front(), (ByteRange{0, 1}));
  EXPECT_EQ(encoding->offsets[1], (ByteRange{1, 2}));
  EXPECT_EQ(encoding->offsets.back(), (ByteRange{2, 3}));
}

TEST(Encode, TakesSeveralTexts) {
  const auto tokenizer = testing::SmallTokenizer({});
  const auto encodings = tokenizer->EncodeBatch({"ab", "", "c"});
  ASSERT_TRUE(encodings.ok()) << encodings.status();
  ASSERT_EQ(encodings->size(), 3);
  EXPECT_EQ((*encodings)[0].ids, tokenizer->Encode("ab")->ids);
  EXPECT_TRUE((*encodings)[1].ids.empty());
  EXPECT_EQ((*encodings)[2].ids, tokenizer->Encode("c")->ids);
  const absl::Status status = tokenizer->EncodeBatch({"a", "\xFF"}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("texts[1]: the text is not UTF-8 at byte 0"),
            absl::string_view::npos);
}

}  // namespace
}  // namespace sluice
