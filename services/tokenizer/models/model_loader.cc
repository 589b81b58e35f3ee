#include "services/tokenizer/models/model_loader.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "services/tokenizer/models/bpe_loader.h"
#include "services/tokenizer/models/serde_number.h"
#include "services/tokenizer/models/unigram_model.h"
#include "services/tokenizer/models/word_models.h"
#include "services/tokenizer/text/strings.h"

namespace sluice {
namespace {

absl::Status VocabularyError(const TokenizerFile& file, std::string_view token,
                             std::string_view problem) {
  return absl::InvalidArgumentError(
      StrCat(file.source, ": model.vocab[", Quoted(token), "] ", problem));
}

// Files from before models had types are told apart by what the model has.
std::string TypeOf(const TokenizerFile& file) {
  const JsonPlace model = file.Root().Member("model");
  if (!model.Member("type").value->is_null()) return model.Type();
  if (file.vocabulary.is_list) return "Unigram";
  if (file.merges.present) return "BPE";
  if (!model.Member("max_input_chars_per_word").value->is_null()) return "WordPiece";
  return model.Member("unk_token").value->is_null() ? "BPE" : "WordLevel";
}

// Of the member that says which token stands for what is unknown; kNoToken where there is none.
absl::StatusOr<TokenId> UnknownId(const TokenizerFile& file) {
  const JsonPlace place = file.Root().Member("model").Member("unk_id");
  if (place.value->is_null()) return kNoToken;
  const size_t size = file.vocabulary.entries.size();
  if (!place.value->is_number_unsigned() || place.value->get<uint64_t>() >= size) {
    return place.Reject(StrCat("null or an index of model.vocab, which has ", size, " tokens"));
  }
  return place.value->get<TokenId>();
}

absl::StatusOr<std::unique_ptr<Model>> UnigramFromFile(
    const TokenizerFile& file, const Vocabulary& vocabulary,
    const absl::flat_hash_set<TokenId>& control_tokens) {
  UnigramOptions options;
  JsonFields fields = file.Root().Member("model").Fields();
  options.byte_fallback = fields.Bool("byte_fallback").value_or(false);
  if (!fields.status().ok()) return fields.status();
  const absl::StatusOr<TokenId> unk_id = UnknownId(file);
  if (!unk_id.ok()) return unk_id.status();
  options.unk_id = *unk_id;
  options.unused = control_tokens;
  std::vector<double> scores = file.vocabulary.scores;
  std::transform(scores.begin(), scores.end(), scores.begin(), AsSerdeReads);
  return std::make_unique<UnigramModel>(vocabulary, std::move(scores), std::move(options));
}

absl::StatusOr<std::unique_ptr<Model>> WordModelFromFile(
    const TokenizerFile& file, const Vocabulary& vocabulary,
    const absl::flat_hash_set<TokenId>& control_tokens, bool is_word_piece) {
  JsonFields fields = file.Root().Member("model").Fields();
  WordModelOptions options;
  options.unk_token = vocabulary.Find(fields.String("unk_token").value_or("[UNK]"));
  options.control_tokens = control_tokens;
  if (!is_word_piece) {
    if (!fields.status().ok()) return fields.status();
    return MakeWordLevelModel(vocabulary, std::move(options));
  }
  constexpr int kDefaultMaxChars = 100;
  WordPieceOptions pieces;
  pieces.continuing_subword_prefix = fields.String("continuing_subword_prefix").value_or("##");
  pieces.max_chars =
      fields.OptionalInt("max_input_chars_per_word", 0, 1 << 30).value_or(kDefaultMaxChars);
  if (!fields.status().ok()) return fields.status();
  return MakeWordPieceModel(vocabulary, std::move(options), std::move(pieces));
}

}  // namespace

absl::StatusOr<Vocabulary> VocabularyFromFile(const TokenizerFile& file) {
  const TokenizerFile::VocabularyTable& table = file.vocabulary;
  const bool wants_list = TypeOf(file) == "Unigram";
  if (table.present && table.is_list != wants_list) {
    return absl::InvalidArgumentError(StrCat(
        file.source, ": model.vocab is ", table.is_list ? "a list" : "an object", "; accepted: ",
        wants_list ? "a list of [\"token\", score]" : "an object of tokens and their ids"));
  }
  if (table.entries.empty()) {
    const JsonPlace place = file.Root().Member("model").Member("vocab");
    if (!table.present) return place.Reject("an object of tokens and their ids");
    return absl::InvalidArgumentError(
        StrCat(file.source, ": model.vocab is empty; accepted: at least one token"));
  }
  Vocabulary vocabulary;
  vocabulary.Reserve(table.entries.size(), table.texts.size());
  const std::string_view texts = table.texts;
  size_t begin = 0;
  for (const auto& [size, id] : table.entries) {
    const std::string_view token = texts.substr(begin, size);
    begin += size;
    switch (vocabulary.Add(token, id)) {
      case Vocabulary::AddResult::kAdded:
        break;
      case Vocabulary::AddResult::kTextExists:
        return VocabularyError(file, token, "is there twice");
      case Vocabulary::AddResult::kIdExists:
        return VocabularyError(
            file, token,
            StrCat("is ", id, ", which is the id of ", Quoted(vocabulary.Text(id)),
                   " already; accepted: an id of its own"));
    }
  }
  return vocabulary;
}

absl::StatusOr<std::unique_ptr<Model>> ModelFromFile(
    const TokenizerFile& file, const Vocabulary& vocabulary,
    const absl::flat_hash_set<TokenId>& control_tokens) {
  const std::string type = TypeOf(file);
  if (type == "BPE") return BpeModelFromFile(file, vocabulary, control_tokens);
  if (type == "Unigram") return UnigramFromFile(file, vocabulary, control_tokens);
  if (type == "WordPiece") return WordModelFromFile(file, vocabulary, control_tokens, true);
  if (type == "WordLevel") return WordModelFromFile(file, vocabulary, control_tokens, false);
  return file.Root().Member("model").RejectType("BPE, Unigram, WordLevel, WordPiece");
}

}  // namespace sluice
