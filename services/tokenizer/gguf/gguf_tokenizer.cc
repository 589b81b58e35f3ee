#include "services/tokenizer/gguf/gguf_tokenizer.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_replace.h"
#include "services/tokenizer/gguf/gguf_merges.h"
#include "services/tokenizer/gguf/gguf_pre_tokenizers.h"
#include "services/tokenizer/text/strings.h"

namespace sluice {
namespace {

using nlohmann::json;
using TokenType = GgufVocabulary::TokenType;

constexpr char kPreKey[] = "tokenizer.ggml.pre";

// What both kinds of tokenizer.json are made of, each as JSON.
struct Parts {
  std::string normalizer = "null";
  std::string pre_tokenizer = "null";
  std::string decoder;
  std::string model_settings;  // members of "model", with a comma behind each
  bool adds_bos = false;
};

std::string JsonText(std::string_view text) { return json(text).dump(); }

bool IsAdded(TokenType type) {
  return type == TokenType::kControl || type == TokenType::kUserDefined ||
         type == TokenType::kUnknown;
}

// Phi-3's special tokens take whitespace along, but for these: no metadata says so.
bool TakesWhitespace(const GgufVocabulary& vocabulary, size_t id) {
  const std::string_view text = vocabulary.tokens[id];
  return vocabulary.is_phi3 && vocabulary.model == "llama" && text != "<s>" && text != "<unk>" &&
         text != "<|endoftext|>";
}

std::string AddedTokensJson(const GgufVocabulary& vocabulary) {
  std::string all = "[";
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    if (!IsAdded(vocabulary.types[id])) continue;
    const json token = {{"id", id},
                        {"content", vocabulary.tokens[id]},
                        {"single_word", false},
                        {"lstrip", false},
                        {"rstrip", TakesWhitespace(vocabulary, id)},
                        {"normalized", false},
                        {"special", vocabulary.types[id] != TokenType::kUserDefined}};
    if (all.size() > 1) all += ",\n";
    all += token.dump();
  }
  return all + "]";
}

std::string VocabularyJson(const GgufVocabulary& vocabulary) {
  std::string all = "{";
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    if (vocabulary.types[id] == TokenType::kUnused) continue;
    if (all.size() > 1) all += ",\n";
    StrAppend(&all, JsonText(vocabulary.tokens[id]), ":", id);
  }
  return all + "}";
}

std::string MergesJson(const std::vector<MergePair>& merges) {
  std::string all = "[";
  for (const auto& [left, right] : merges) {
    if (all.size() > 1) all += ",\n";
    StrAppend(&all, "[", JsonText(left), ",", JsonText(right), "]");
  }
  return all + "]";
}

std::vector<MergePair> MergesOf(const GgufVocabulary& vocabulary) {
  if (vocabulary.model == "llama") {
    std::vector<std::string_view> tokens(vocabulary.tokens.begin(), vocabulary.tokens.end());
    for (size_t id = 0; id < tokens.size(); ++id) {
      if (vocabulary.types[id] == TokenType::kUnused) tokens[id] = {};  // no part of the vocabulary
    }
    return MergesOfScores(tokens, vocabulary.scores);
  }
  std::vector<MergePair> merges;
  for (const std::string_view merge : vocabulary.merges) {
    const size_t space = merge.find(' ', 1);
    merges.emplace_back(merge.substr(0, space), merge.substr(space + 1));
  }
  return merges;
}

// The tokens around a text; null where there are none.
json PostProcessorJson(const GgufVocabulary& vocabulary, bool adds_bos) {
  const json text = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  const json second = {{"Sequence", {{"id", "B"}, {"type_id", 0}}}};
  json before = json::array(), behind = json::array(), tokens = json::object();
  const auto add = [&](std::optional<TokenId> id, json& where) {
    if (!id.has_value()) return;
    const std::string_view content = vocabulary.tokens[static_cast<size_t>(*id)];
    where.push_back({{"SpecialToken", {{"id", content}, {"type_id", 0}}}});
    tokens[std::string(content)] = {
        {"id", content}, {"ids", json::array({*id})}, {"tokens", json::array({content})}};
  };
  if (vocabulary.adds_bos.value_or(adds_bos)) add(vocabulary.bos, before);
  if (vocabulary.adds_eos.value_or(false)) add(vocabulary.eos, behind);
  if (tokens.empty()) return nullptr;
  json single = before, pair;
  single.push_back(text);
  single.insert(single.end(), behind.begin(), behind.end());
  pair = single;
  pair.push_back(second);
  return {{"type", "TemplateProcessing"},
          {"single", single},
          {"pair", pair},
          {"special_tokens", tokens}};
}

absl::StatusOr<Parts> ByteLevelParts(const GgufVocabulary& vocabulary, const std::string& source) {
  const GgufPreTokenizer* known = FindGgufPreTokenizer(vocabulary.pre);
  if (known == nullptr) {
    return absl::UnimplementedError(StrCat(
        source, ": ", kPreKey, " is ", vocabulary.pre.empty() ? "missing" : Quoted(vocabulary.pre),
        "; accepted: ", KnownGgufPreTokenizers()));
  }
  Parts parts;
  if (known->composes) parts.normalizer = R"({"type": "NFC"})";
  parts.pre_tokenizer =
      absl::StrReplaceAll(known->pre_tokenizer, {{"$0", JsonText(known->pattern)}});
  parts.decoder =
      R"({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true})";
  parts.model_settings =
      StrCat(R"("ignore_merges": )", known->keeps_whole_tokens ? "true" : "false", ",");
  parts.adds_bos = known->adds_bos;
  return parts;
}

// The first token of a type; nullopt where there is none.
std::optional<std::string_view> TokenOfType(const GgufVocabulary& vocabulary, TokenType type) {
  const auto found = std::find(vocabulary.types.begin(), vocabulary.types.end(), type);
  if (found == vocabulary.types.end()) return std::nullopt;
  return vocabulary.tokens[static_cast<size_t>(found - vocabulary.types.begin())];
}

Parts SentencePieceParts(const GgufVocabulary& vocabulary) {
  constexpr char kReplace[] =
      R"({"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"})";
  Parts parts;
  parts.normalizer =
      vocabulary.adds_space
          ? StrCat(
                R"({"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "\u2581"}, )",
                kReplace, "]}")
          : kReplace;
  parts.decoder = StrCat(
      R"({"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "\u2581"}, )",
      R"("content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"})",
      vocabulary.adds_space ? R"(, {"type": "Strip", "content": " ", "start": 1, "stop": 0})" : "",
      "]}");
  const bool has_bytes = TokenOfType(vocabulary, TokenType::kByte).has_value();
  const auto unknown = TokenOfType(vocabulary, TokenType::kUnknown);
  parts.model_settings =
      StrCat(R"("unk_token": )", unknown.has_value() ? JsonText(*unknown) : "null",
             R"(, "fuse_unk": true, "byte_fallback": )", has_bytes ? "true" : "false", ",");
  parts.adds_bos = true;
  return parts;
}

}  // namespace

absl::StatusOr<std::string> GgufTokenizerJson(const GgufVocabulary& vocabulary,
                                              const std::string& source) {
  absl::StatusOr<Parts> parts = vocabulary.model == "gpt2" ? ByteLevelParts(vocabulary, source)
                                                           : SentencePieceParts(vocabulary);
  if (!parts.ok()) return parts.status();
  return StrCat(
      R"({"version": "1.0", "added_tokens": )", AddedTokensJson(vocabulary), R"(, "normalizer": )",
      parts->normalizer, R"(, "pre_tokenizer": )", parts->pre_tokenizer, R"(, "post_processor": )",
      PostProcessorJson(vocabulary, parts->adds_bos).dump(), R"(, "decoder": )", parts->decoder,
      R"(, "model": {"type": "BPE", )", parts->model_settings, R"("vocab": )",
      VocabularyJson(vocabulary), R"(, "merges": )", MergesJson(MergesOf(vocabulary)), "}}");
}

}  // namespace sluice
