#include "services/tokenizer/gguf/gguf_vocabulary.h"

#include <cmath>

#include "services/tokenizer/text/strings.h"
#include "services/tokenizer/text/utf8.h"

namespace sluice {
namespace {

using TokenType = GgufVocabulary::TokenType;

constexpr char kModelKey[] = "tokenizer.ggml.model";
constexpr char kTokensKey[] = "tokenizer.ggml.tokens";
constexpr char kTypesKey[] = "tokenizer.ggml.token_type";
constexpr char kScoresKey[] = "tokenizer.ggml.scores";
constexpr char kMergesKey[] = "tokenizer.ggml.merges";

// Merges are looked for at each place of a token, in time that grows with its square.
constexpr size_t kLongestToken = 4096;
constexpr size_t kMostTokens = size_t{1} << 22;

void ReadTokens(GgufFields& fields, GgufVocabulary& vocabulary) {
  const GgufValue* value = fields.view().Find(kTokensKey);
  if (value != nullptr && value->count() > kMostTokens) {
    return fields.Reject(kTokensKey, StrCat("a list of at most ", kMostTokens, " texts"));
  }
  auto tokens = value == nullptr ? std::nullopt : value->Texts();
  if (!tokens.has_value() || tokens->empty()) return fields.Reject(kTokensKey, "a list of texts");
  for (size_t id = 0; id < tokens->size(); ++id) {
    if ((*tokens)[id].size() > kLongestToken) {
      return fields.Fail(StrCat(kTokensKey, "[", id, "] has ", (*tokens)[id].size(),
                                " bytes; accepted: at most ", kLongestToken));
    }
    if (FirstInvalidUtf8((*tokens)[id]) == std::string_view::npos) continue;
    return fields.Fail(
        StrCat(kTokensKey, "[", id, "] is ", Quoted((*tokens)[id]), "; accepted: UTF-8"));
  }
  vocabulary.tokens = *std::move(tokens);
}

void ReadTypes(GgufFields& fields, GgufVocabulary& vocabulary) {
  vocabulary.types.assign(vocabulary.tokens.size(), TokenType::kNormal);
  const GgufValue* value = fields.view().Find(kTypesKey);
  if (value == nullptr) return;
  const auto types = value->Ints();
  if (!types.has_value() || types->size() != vocabulary.tokens.size()) {
    return fields.Reject(kTypesKey, StrCat("a list of ", vocabulary.tokens.size(), " integers"));
  }
  for (size_t id = 0; id < types->size(); ++id) {
    const int64_t type = (*types)[id];
    if (type >= static_cast<int64_t>(TokenType::kNormal) &&
        type <= static_cast<int64_t>(TokenType::kByte)) {
      vocabulary.types[id] = static_cast<TokenType>(type);
    }
  }
}

void ReadScores(GgufFields& fields, GgufVocabulary& vocabulary) {
  const GgufValue* value = fields.view().Find(kScoresKey);
  auto scores = value == nullptr ? std::nullopt : value->Numbers();
  if (!scores.has_value() || scores->size() != vocabulary.tokens.size()) {
    return fields.Reject(kScoresKey, StrCat("a list of ", vocabulary.tokens.size(), " numbers"));
  }
  for (size_t id = 0; id < scores->size(); ++id) {
    if (std::isfinite((*scores)[id])) continue;
    return fields.Fail(StrCat(kScoresKey, "[", id, "] is no finite number; accepted: numbers"));
  }
  vocabulary.scores = *std::move(scores);
}

void ReadMerges(GgufFields& fields, GgufVocabulary& vocabulary) {
  const GgufValue* value = fields.view().Find(kMergesKey);
  auto merges = value == nullptr ? std::nullopt : value->Texts();
  if (!merges.has_value()) return fields.Reject(kMergesKey, "a list of texts");
  for (size_t rank = 0; rank < merges->size(); ++rank) {
    const std::string_view merge = (*merges)[rank];
    // A byte-level alphabet has no space but the one between the two.
    if (merge.find(' ', 1) != merge.npos && FirstInvalidUtf8(merge) == merge.npos) continue;
    return fields.Fail(StrCat(kMergesKey, "[", rank, "] is ", Quoted(merge),
                              "; accepted: two tokens with a space between them"));
  }
  vocabulary.merges = *std::move(merges);
}

std::optional<TokenId> ReadId(GgufFields& fields, const GgufVocabulary& vocabulary,
                              const std::string& key) {
  const auto id = fields.Int(key);
  if (!id.has_value()) return std::nullopt;
  if (*id >= 0 && *id < static_cast<int64_t>(vocabulary.tokens.size())) {
    return static_cast<TokenId>(*id);
  }
  fields.Reject(key, StrCat("0 to ", vocabulary.tokens.size() - 1));
  return std::nullopt;
}

void ReadIds(GgufFields& fields, GgufVocabulary& vocabulary) {
  vocabulary.bos = ReadId(fields, vocabulary, "tokenizer.ggml.bos_token_id");
  vocabulary.eos = ReadId(fields, vocabulary, "tokenizer.ggml.eos_token_id");
  vocabulary.unknown = ReadId(fields, vocabulary, "tokenizer.ggml.unknown_token_id");
  vocabulary.padding = ReadId(fields, vocabulary, "tokenizer.ggml.padding_token_id");
  vocabulary.adds_bos = fields.Bool("tokenizer.ggml.add_bos_token");
  vocabulary.adds_eos = fields.Bool("tokenizer.ggml.add_eos_token");
  vocabulary.adds_space =
      fields.Bool("tokenizer.ggml.add_space_prefix").value_or(vocabulary.model != "gemma4");
}

}  // namespace

absl::StatusOr<GgufVocabulary> ReadGgufVocabulary(const GgufView& view) {
  GgufFields fields(view);
  GgufVocabulary vocabulary;
  vocabulary.model = fields.Text(kModelKey).value_or("none");
  if (!fields.status().ok()) return fields.status();
  if (vocabulary.model == "none") {
    return absl::NotFoundError(StrCat(view.source, " has no tokenizer; looked for ", kTokensKey));
  }
  if (vocabulary.model != "gpt2" && vocabulary.model != "llama" && vocabulary.model != "gemma4") {
    fields.Reject(kModelKey, "\"gpt2\", \"llama\", \"gemma4\", \"none\"",
                  absl::StatusCode::kUnimplemented);
    return fields.status();
  }
  vocabulary.pre = fields.Text("tokenizer.ggml.pre").value_or("");
  vocabulary.is_phi3 = fields.Text("general.architecture").value_or("") == "phi3";
  ReadTokens(fields, vocabulary);
  if (!fields.status().ok()) return fields.status();
  ReadTypes(fields, vocabulary);
  vocabulary.model == "llama" ? ReadScores(fields, vocabulary) : ReadMerges(fields, vocabulary);
  ReadIds(fields, vocabulary);
  if (!fields.status().ok()) return fields.status();
  return vocabulary;
}

}  // namespace sluice
