// Vocabularies as GGUF files have them, made of real tokenizer.json files, against the tokenizers
// that these files are.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "services/tokenizer/gguf/gguf_merges.h"
#include "services/tokenizer/tokenizer.h"
#include "tests/services/model/gguf_bytes.h"
#include "tests/services/model/model_folder.h"
#include "tests/services/tokenizer/test_tokenizers.h"
#include "tests/testing/test_data.h"

namespace sluice::testing {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

constexpr int32_t kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6;

// How a converter describes a folder's tokenizer.
struct Converted {
  std::string folder;
  std::string architecture;
  std::string pre;  // empty: of a SentencePiece model
  bool adds_bos = false;
};

const std::vector<Converted> kTokenizers = {
    {"gpt2", "gpt2", "gpt-2"},      {"llama3", "llama", "llama-bpe", true},
    {"qwen2", "qwen2", "qwen2"},    {"deepseek-coder", "llama", "deepseek-coder", true},
    {"llama2", "llama", "", true},  {"phi-3-mini", "phi3", ""},
    {"llama2", "gemma4", "", true},
};

bool IsByte(const std::string& token) {
  return token.size() == 6 && token.substr(0, 3) == "<0x" && token.back() == '>';
}

struct TokenLists {
  std::vector<std::string> tokens;
  std::vector<int32_t> types;
};

TokenLists ListsOf(const json& file, bool has_byte_tokens) {
  TokenLists lists;
  const auto set = [&](int id, const std::string& token, int32_t type) {
    for (int next = static_cast<int>(lists.tokens.size()); next <= id; ++next) {
      lists.tokens.push_back("[PAD" + std::to_string(next) + "]");
      lists.types.push_back(kUnused);
    }
    lists.tokens[id] = token;
    lists.types[id] = type;
  };
  for (const auto& [token, id] : file["model"]["vocab"].items()) {
    set(id, token, has_byte_tokens && IsByte(token) ? kByte : kNormal);
  }
  for (const json& added : file["added_tokens"]) {
    const std::string content = added["content"];
    const bool is_unknown = content == file["model"].value("unk_token", json());
    set(added["id"], content, is_unknown ? kUnknown : added["special"] ? kControl : kUserDefined);
  }
  return lists;
}

std::vector<std::string> MergesOf(const json& file) {
  std::vector<std::string> merges;
  for (const json& merge : file["model"]["merges"]) {
    merges.push_back(merge.is_string()
                         ? merge.get<std::string>()
                         : merge[0].get<std::string>() + " " + merge[1].get<std::string>());
  }
  return merges;
}

// Whether a token is two or more visible spaces.
bool IsRunOfSpaces(const std::string& token) {
  constexpr size_t kSpaceBytes = 3;
  for (size_t at = 0; at < token.size(); at += kSpaceBytes) {
    if (token.compare(at, kSpaceBytes, "\u2581") != 0) return false;
  }
  return token.size() > kSpaceBytes;
}

// As Llama 2's SentencePiece model has them: pieces come in the order in which they were merged,
// but for runs of spaces, which are merged last.
std::vector<float> ScoresOf(const TokenLists& lists) {
  constexpr size_t kFirstNormal = 259;
  std::vector<float> scores(lists.tokens.size());
  for (size_t id = kFirstNormal; id < scores.size(); ++id) {
    scores[id] = IsRunOfSpaces(lists.tokens[id]) ? -1e9f : -static_cast<float>(id - kFirstNormal);
  }
  return scores;
}

int IdOf(const TokenLists& lists, const std::string& token) {
  return static_cast<int>(std::find(lists.tokens.begin(), lists.tokens.end(), token) -
                          lists.tokens.begin());
}

GgufBytes VocabularyOf(const Converted& converted, const json& file) {
  const bool is_sentence_piece = converted.pre.empty();
  const bool has_merges = !is_sentence_piece || converted.architecture == "gemma4";
  const TokenLists lists = ListsOf(file, is_sentence_piece);
  GgufBytes bytes;
  bytes.Text("general.architecture", converted.architecture)
      .Text("tokenizer.ggml.model", has_merges ? (is_sentence_piece ? "gemma4" : "gpt2") : "llama")
      .Texts("tokenizer.ggml.tokens", lists.tokens)
      .Ints("tokenizer.ggml.token_type", lists.types)
      .Bool("tokenizer.ggml.add_bos_token", converted.adds_bos);
  if (has_merges) {
    bytes.Text("tokenizer.ggml.pre", converted.pre).Texts("tokenizer.ggml.merges", MergesOf(file));
  } else {
    bytes.Numbers("tokenizer.ggml.scores", ScoresOf(lists));
  }
  if (converted.architecture == "gemma4") bytes.Bool("tokenizer.ggml.add_space_prefix", true);
  for (const char* bos :
       {"<s>", "<|begin_of_text|>", "<\uff5cbegin\u2581of\u2581sentence\uff5c>"}) {
    const int id = IdOf(lists, bos);
    if (id < static_cast<int>(lists.tokens.size())) bytes.Int("tokenizer.ggml.bos_token_id", id);
  }
  return bytes;
}

class GgufTokenizer : public ::testing::TestWithParam<Converted> {};

TEST_P(GgufTokenizer, GivesTheTokensOfItsFolder) {
  const std::string name = "tokenizers/" + GetParam().folder;
  SLUICE_SKIP_WITHOUT(name);
  const std::string folder = *TestData(name);
  const auto expected = LoadOrFail(folder);
  ASSERT_NE(expected, nullptr);
  const TempFolder place;
  const json file = json::parse(ReadFile(folder + "/tokenizer.json"));
  const auto made = Tokenizer::Load(place.Write("m.gguf", VocabularyOf(GetParam(), file).Build()));
  ASSERT_TRUE(made.ok()) << made.status();
  std::vector<std::string> texts = ReadJsonStrings(*TestData("text/hard.jsonl"));
  const std::vector<std::string> prose = ReadJsonStrings(*TestData("text/prose.jsonl"));
  texts.insert(texts.end(), prose.begin(), prose.end());
  int compared = 0;
  for (const std::string& text : texts) {
    // Llama 2's file looks for these in normalized text, which no metadata says.
    const bool is_odd = text.find("<s>") != text.npos || text.find("</s>") != text.npos ||
                        text.find("<unk>") != text.npos;
    if (GetParam().folder == "llama2" && is_odd) continue;
    ++compared;
    const auto ids = (*made)->Encode(text), theirs = expected->Encode(text);
    ASSERT_TRUE(ids.ok() && theirs.ok()) << ids.status() << theirs.status();
    EXPECT_EQ(ids->ids, theirs->ids) << text;
    const auto shown = (*made)->Decode(ids->ids), shown_there = expected->Decode(ids->ids);
    ASSERT_TRUE(shown.ok() && shown_there.ok()) << shown.status() << shown_there.status();
    EXPECT_EQ(*shown, *shown_there);
  }
  EXPECT_GT(compared, 400);
}

INSTANTIATE_TEST_SUITE_P(All, GgufTokenizer, ::testing::ValuesIn(kTokenizers),
                         [](const auto& test) {
                           std::string name = test.param.architecture == "gemma4"
                                                  ? "merges_of_llama2"
                                                  : test.param.folder;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// A vocabulary of bytes, two merges and three special tokens.
GgufBytes TinyVocabulary() {
  GgufBytes bytes;
  return bytes.Text("tokenizer.ggml.model", "llama")
      .Texts("tokenizer.ggml.tokens",
             {"<unk>", "<s>", "</s>", "<0x0A>", "\u2581", "a", "b", "ab", "\u2581ab", "<|user|>"})
      .Ints("tokenizer.ggml.token_type", {kUnknown, kControl, kControl, kByte, kNormal, kNormal,
                                          kNormal, kNormal, kNormal, kUserDefined})
      .Numbers("tokenizer.ggml.scores", {0, 0, 0, 0, -9, -8, -7, -1, -2, 0})
      .Int("tokenizer.ggml.bos_token_id", 1)
      .Int("tokenizer.ggml.eos_token_id", 2)
      .Int("tokenizer.ggml.unknown_token_id", 0);
}

absl::StatusOr<std::unique_ptr<const Tokenizer>> Load(const GgufBytes& bytes) {
  const TempFolder folder;
  return Tokenizer::Load(folder.Write("m.gguf", bytes.Build()));
}

TEST(GgufVocabularies, MergeByScore) {
  const auto tokenizer = Load(TinyVocabulary());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_THAT((*tokenizer)->Encode("ab\nba")->ids, ElementsAre(1, 8, 3, 6, 5));
  EXPECT_THAT((*tokenizer)->Encode("<|user|>ab")->ids, ElementsAre(1, 9, 8));
  EXPECT_EQ((*tokenizer)->bos_id(), 1);
  EXPECT_EQ((*tokenizer)->eos_id(), 2);
  const auto bare = Load(TinyVocabulary()
                             .Bool("tokenizer.ggml.add_space_prefix", false)
                             .Bool("tokenizer.ggml.add_bos_token", false)
                             .Bool("tokenizer.ggml.add_eos_token", true));
  ASSERT_TRUE(bare.ok()) << bare.status();
  EXPECT_THAT((*bare)->Encode("ab ab")->ids, ElementsAre(7, 8, 2));
  EXPECT_EQ(*(*bare)->Decode(std::vector<TokenId>{7, 8}), "ab ab");
}

TEST(GgufVocabularies, HaveChatTemplates) {
  const auto tokenizer = Load(TinyVocabulary()
                                  .Text("tokenizer.chat_template", "{{ messages }}")
                                  .Text("tokenizer.chat_template.tool_use", "{{ tools }}"));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  const TokenizerConfig& config = (*tokenizer)->config();
  EXPECT_THAT(config.chat_templates,
              ElementsAre(Pair("default", "{{ messages }}"), Pair("tool_use", "{{ tools }}")));
  EXPECT_THAT(
      config.special_tokens,
      ElementsAre(Pair("bos_token", "<s>"), Pair("eos_token", "</s>"), Pair("unk_token", "<unk>")));
}

TEST(GgufVocabularies, AreRefusedByKeyAndValue) {
  const auto refusal = [](const GgufBytes& bytes) {
    return std::string(Load(bytes).status().message());
  };
  EXPECT_EQ(Load(GgufBytes().Text("tokenizer.ggml.model", "none")).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_THAT(refusal(GgufBytes().Text("tokenizer.ggml.model", "rwkv")),
              HasSubstr("m.gguf: tokenizer.ggml.model is \"rwkv\"; accepted: \"gpt2\", \"llama\""));
  GgufBytes bytes;
  bytes.Text("tokenizer.ggml.model", "gpt2").Texts("tokenizer.ggml.tokens", {"a", "b", "ab"});
  EXPECT_THAT(refusal(bytes), HasSubstr("tokenizer.ggml.merges is missing"));
  bytes.Texts("tokenizer.ggml.merges", {"ab"});
  EXPECT_THAT(refusal(bytes),
              HasSubstr("tokenizer.ggml.merges[0] is \"ab\"; accepted: two tokens"));
  GgufBytes other;
  other.Text("tokenizer.ggml.model", "gpt2").Texts("tokenizer.ggml.tokens", {"a", "b", "ab"});
  other.Texts("tokenizer.ggml.merges", {"a b"}).Text("tokenizer.ggml.pre", "odd");
  EXPECT_THAT(refusal(other), HasSubstr("tokenizer.ggml.pre is \"odd\"; accepted: gpt-2, phi-2"));
  other.Ints("tokenizer.ggml.token_type", {1});
  EXPECT_THAT(refusal(other), HasSubstr("token_type is an array of 1; accepted: a list of 3"));
  EXPECT_THAT(refusal(TinyVocabulary().Int("tokenizer.ggml.padding_token_id", 10)),
              HasSubstr("padding_token_id is 10; accepted: 0 to 9"));
}

// By score, then by the parts' characters, as Hugging Face's converter sorts them.
TEST(GgufVocabularies, OrderMerges) {
  const std::vector<std::string_view> tokens = {"a", "b", "c", "ab", "bc", "abc"};
  const std::vector<double> scores = {0, 0, 0, -2, -1, -3};
  EXPECT_THAT(MergesOfScores(tokens, scores),
              ElementsAre(Pair("b", "c"), Pair("a", "b"), Pair("ab", "c"), Pair("a", "bc")));
}

}  // namespace
}  // namespace sluice::testing
