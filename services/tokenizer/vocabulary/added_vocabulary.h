// The added tokens of a tokenizer: which there are, and finding them in texts. Immutable once
// built, then thread-safe.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "services/tokenizer/normalizers/normalizer.h"
#include "services/tokenizer/vocabulary/added_tokens.h"
#include "services/tokenizer/vocabulary/vocabulary.h"

namespace sluice {

class AddedVocabulary {
 public:
  struct Entry {
    AddedToken token;
    // What decoding begins with: the content, or its normalized form where the token is looked for
    // in normalized text.
    std::string decode_text;
    bool is_special = false;  // whatever IsSpecialText says
  };

  // "added_tokens" as tokenizer.json has it. As in Hugging Face's library, a token's id is the one
  // that the model's vocabulary has for its content, else the first free one behind that
  // vocabulary; the "id" field is only checked for being nobody else's. INVALID_ARGUMENT naming
  // file, path and value. `normalizer` may be nullptr.
  static absl::StatusOr<AddedVocabulary> FromJson(const JsonPlace& place, const Vocabulary& model,
                                                  const Normalizer* normalizer);

  // Adds a token with the id it has; BuildFinders is to follow. REQUIRES: it is not empty, and no
  // other has its id or content.
  void AddToken(AddedToken token, std::string decode_text);
  void BuildFinders();

  // By id.
  const std::map<TokenId, Entry>& entries() const { return entries_; }

  // kNoToken where there is none.
  TokenId Find(std::string_view content) const;

  // Whether decoding without special tokens leaves out what decodes from `text`.
  bool IsSpecialText(std::string_view text) const { return special_.contains(text); }

  // Tokens looked for in the text as it is, and in the normalized one.
  const AddedTokenFinder& raw_finder() const { return raw_finder_; }
  const AddedTokenFinder& normalized_finder() const { return normalized_finder_; }

 private:
  absl::Status Add(const JsonPlace& place, AddedToken token, const Vocabulary& model,
                   const Normalizer* normalizer);

  std::map<TokenId, Entry> entries_;
  std::map<std::string, TokenId, std::less<>> ids_;
  std::set<std::string, std::less<>> special_;
  TokenId next_id_ = 0;
  AddedTokenFinder raw_finder_;
  AddedTokenFinder normalized_finder_;
};

}  // namespace sluice
