// Tokenizer's way from a tokenizer.json.
#include <utility>

#include "services/tokenizer/models/model_loader.h"
#include "services/tokenizer/text/json_place.h"
#include "services/tokenizer/tokenizer.h"
#include "services/tokenizer/vocabulary/tokenizer_file.h"

namespace sluice {
namespace {

absl::Status CheckHeader(const JsonPlace& root) {
  if (!root.value->is_object()) return root.Reject("a JSON object");
  const JsonPlace version = root.Member("version");
  if (!version.value->is_null() && *version.value != "1.0") return version.Reject("\"1.0\"");
  const JsonPlace model = root.Member("model");
  if (!model.value->is_object()) return model.Reject("an object");
  return absl::OkStatus();
}

// Tokens that only the caller may write. A single_word token may be a word's part all the same.
absl::flat_hash_set<TokenId> ControlTokens(const AddedVocabulary& added) {
  absl::flat_hash_set<TokenId> ids;
  for (const auto& [id, entry] : added.entries()) {
    if (entry.token.special && !entry.token.single_word) ids.insert(id);
  }
  return ids;
}

// Moves a result into its place.
template <typename T>
absl::Status Take(absl::StatusOr<T> result, T* place) {
  if (!result.ok()) return result.status();
  *place = *std::move(result);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<const Tokenizer>> Tokenizer::FromJson(std::string_view text,
                                                                     std::string_view source,
                                                                     TokenizerConfig config) {
  absl::StatusOr<TokenizerFile> file = ParseTokenizerFile(text, source);
  if (!file.ok()) return file.status();
  const JsonPlace root = file->Root();
  std::unique_ptr<Tokenizer> tokenizer(new Tokenizer);
  absl::Status status = CheckHeader(root);
  // In an order that lets each step use the ones before it.
  if (status.ok()) {
    status = Take(NormalizerFromJson(root.Member("normalizer")), &tokenizer->normalizer_);
  }
  if (status.ok()) {
    status = Take(PreTokenizerFromJson(root.Member("pre_tokenizer")), &tokenizer->pre_tokenizer_);
  }
  if (status.ok()) {
    status =
        Take(PostProcessorFromJson(root.Member("post_processor")), &tokenizer->post_processor_);
  }
  if (status.ok()) status = Take(DecoderFromJson(root.Member("decoder")), &tokenizer->decoder_);
  if (status.ok()) status = Take(VocabularyFromFile(*file), &tokenizer->vocabulary_);
  if (status.ok()) {
    status = Take(AddedVocabulary::FromJson(root.Member("added_tokens"), tokenizer->vocabulary_,
                                            tokenizer->normalizer_.get()),
                  &tokenizer->added_);
  }
  if (status.ok()) {
    status = Take(ModelFromFile(*file, tokenizer->vocabulary_, ControlTokens(tokenizer->added_)),
                  &tokenizer->model_);
  }
  if (!status.ok()) return status;
  tokenizer->config_ = std::move(config);
  tokenizer->BuildTokenTable();
  return tokenizer;
}

}  // namespace sluice
