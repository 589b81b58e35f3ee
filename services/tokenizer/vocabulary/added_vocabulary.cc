#include "services/tokenizer/vocabulary/added_vocabulary.h"

#include <utility>

#include "services/tokenizer/text/json_place.h"
#include "services/tokenizer/text/strings.h"

namespace sluice {
namespace {

bool Flag(JsonFields& fields, const std::string& name) {
  const std::optional<bool> flag = fields.Bool(name);
  if (!flag.has_value()) fields.Reject(name, "true or false");
  return flag.value_or(false);
}

// With the id that the file gives.
absl::StatusOr<AddedToken> AddedTokenFromJson(const JsonPlace& place) {
  JsonFields fields = place.Fields();
  AddedToken token;
  token.id = fields.Int("id", 0, Vocabulary::kMaxIds - 1);
  const std::optional<std::string> content = fields.String("content");
  if (!content.has_value()) fields.Reject("content", "a string");
  token.single_word = Flag(fields, "single_word");
  token.lstrip = Flag(fields, "lstrip");
  token.rstrip = Flag(fields, "rstrip");
  token.normalized = Flag(fields, "normalized");
  token.special = Flag(fields, "special");
  if (!fields.status().ok()) return fields.status();
  token.content = *content;
  return token;
}

}  // namespace

absl::StatusOr<AddedVocabulary> AddedVocabulary::FromJson(const JsonPlace& place,
                                                          const Vocabulary& model,
                                                          const Normalizer* normalizer) {
  AddedVocabulary added;
  if (place.value->is_null()) return added;
  if (!place.value->is_array()) return place.Reject("an array");
  added.next_id_ = static_cast<TokenId>(model.size());
  absl::flat_hash_map<TokenId, std::string> declared;
  for (size_t i = 0; i < place.value->size(); ++i) {
    const JsonPlace element = place.Element(i);
    absl::StatusOr<AddedToken> token = AddedTokenFromJson(element);
    if (!token.ok()) return token.status();
    const auto [other, is_new] = declared.try_emplace(token->id, token->content);
    if (!is_new && other->second != token->content) {
      return element.Member("id").Reject(
          StrCat("an id of its own, not that of ", Quoted(other->second), ""));
    }
    if (token->content.empty()) continue;
    if (auto status = added.Add(element, *std::move(token), model, normalizer); !status.ok()) {
      return status;
    }
  }
  added.BuildFinders();
  return added;
}

absl::Status AddedVocabulary::Add(const JsonPlace& place, AddedToken token, const Vocabulary& model,
                                  const Normalizer* normalizer) {
  token.id = Find(token.content);
  if (token.id == kNoToken) token.id = model.Find(token.content);
  if (token.id == kNoToken) {
    token.id = next_id_++;
    if (model.Has(token.id)) {
      return place.Reject(StrCat("a vocabulary without gaps, in which the id ", token.id,
                                 " is free for this token"));
    }
    if (token.id >= Vocabulary::kMaxIds) {
      return place.Reject(StrCat("at most ", Vocabulary::kMaxIds, " tokens"));
    }
  }
  ids_[token.content] = token.id;
  if (token.special) special_.insert(token.content);
  std::string decode_text = token.content;
  if (token.normalized && normalizer != nullptr) {
    MappedText text(token.content, std::nullopt);
    normalizer->Normalize(&text);
    decode_text = text.text();
  }
  const TokenId id = token.id;
  entries_.insert_or_assign(id, Entry{std::move(token), std::move(decode_text)});
  return absl::OkStatus();
}

void AddedVocabulary::AddToken(AddedToken token, std::string decode_text) {
  const TokenId id = token.id;
  const bool is_special = token.special;
  ids_[token.content] = id;
  entries_.insert_or_assign(id, Entry{std::move(token), std::move(decode_text), is_special});
}

void AddedVocabulary::BuildFinders() {
  for (const auto& [id, entry] : entries_) {
    AddedTokenFinder& finder = entry.token.normalized ? normalized_finder_ : raw_finder_;
    finder.Add(entry.token, entry.token.normalized ? entry.decode_text : entry.token.content);
  }
}

TokenId AddedVocabulary::Find(std::string_view content) const {
  const auto found = ids_.find(content);
  return found == ids_.end() ? kNoToken : found->second;
}

}  // namespace sluice
