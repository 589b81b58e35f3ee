#include "services/tokenizer/models/bpe_loader.h"

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "services/tokenizer/models/bpe_model.h"
#include "services/tokenizer/strings.h"

namespace sluice {
namespace {

absl::Status VocabularyError(const TokenizerFile& file, std::string_view token,
                             std::string_view problem) {
  return absl::InvalidArgumentError(
      StrCat(file.source, ": model.vocab[", Quoted(token), "] ", problem));
}

// The id of a piece of the merge at `index`.
absl::StatusOr<TokenId> FindPiece(const TokenizerFile& file, const Vocabulary& vocabulary,
                                  size_t index, std::string_view piece) {
  const TokenId id = vocabulary.Find(piece);
  if (id != kNoToken) return id;
  return absl::InvalidArgumentError(StrCat(file.source, ": model.merges[", index,
                                           "] has the piece ", Quoted(piece),
                                           "; accepted: tokens that model.vocab has"));
}

absl::StatusOr<MergeTable> MergesFromFile(const TokenizerFile& file, const Vocabulary& vocabulary,
                                          const absl::flat_hash_set<TokenId>& control_tokens) {
  const TokenizerFile::MergeList& merges = file.merges;
  MergeTable table(merges.entries.size());
  const std::string_view texts = merges.texts;
  size_t begin = 0;
  for (uint32_t rank = 0; rank < merges.entries.size(); ++rank) {
    const auto [left_size, right_size] = merges.entries[rank];
    const std::string_view result = texts.substr(begin, left_size + right_size);
    begin += result.size();
    TokenId ids[3];
    const std::string_view pieces[] = {result.substr(0, left_size), result.substr(left_size),
                                       result};
    for (int i = 0; i < 3; ++i) {
      absl::StatusOr<TokenId> id = FindPiece(file, vocabulary, rank, pieces[i]);
      if (!id.ok()) return id.status();
      ids[i] = *id;
    }
    if (control_tokens.contains(ids[2])) continue;
    table.Add(ids[0], ids[1], {rank, ids[2]});
  }
  return table;
}

// Settings that change how words are encoded in ways that are not supported.
absl::Status CheckSettings(JsonFields& fields) {
  if (const auto dropout = fields.NumberAtLeast("dropout", 0, 1); dropout.value_or(0) > 0) {
    fields.Reject("dropout", "null or 0", absl::StatusCode::kUnimplemented);
  }
  for (const char* name : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (!fields.String(name).value_or("").empty()) {
      fields.Reject(name, "null or \"\"", absl::StatusCode::kUnimplemented);
    }
  }
  return fields.status();
}

}  // namespace

absl::StatusOr<Vocabulary> BpeVocabularyFromFile(const TokenizerFile& file) {
  const TokenizerFile::VocabularyTable& table = file.vocabulary;
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

absl::StatusOr<std::unique_ptr<Model>> BpeModelFromFile(
    const TokenizerFile& file, const Vocabulary& vocabulary,
    const absl::flat_hash_set<TokenId>& control_tokens) {
  const JsonPlace place = file.Root().Member("model");
  if (!file.merges.present) return place.Member("merges").Reject("a list of merges");
  JsonFields fields = place.Fields();
  if (absl::Status status = CheckSettings(fields); !status.ok()) return status;
  BpeOptions options;
  // One that the vocabulary lacks can never be produced.
  if (const auto unk = fields.String("unk_token")) options.unk_token = vocabulary.Find(*unk);
  options.fuse_unk = fields.Bool("fuse_unk").value_or(false);
  options.byte_fallback = fields.Bool("byte_fallback").value_or(false);
  options.ignore_merges = fields.Bool("ignore_merges").value_or(false);
  options.control_tokens = control_tokens;
  if (!fields.status().ok()) return fields.status();
  absl::StatusOr<MergeTable> merges = MergesFromFile(file, vocabulary, control_tokens);
  if (!merges.ok()) return merges.status();
  return std::make_unique<BpeModel>(vocabulary, *std::move(merges), std::move(options));
}

}  // namespace sluice
