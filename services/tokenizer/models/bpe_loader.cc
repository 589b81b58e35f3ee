#include "services/tokenizer/models/bpe_loader.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "services/tokenizer/models/bpe_model.h"
#include "services/tokenizer/text/strings.h"

namespace sluice {
namespace {

// The id of a piece of the merge at `index`.
absl::StatusOr<TokenId> FindPiece(const TokenizerFile& file, const Vocabulary& vocabulary,
                                  size_t index, std::string_view piece) {
  const TokenId id = vocabulary.Find(piece);
  if (id != kNoToken) return id;
  return absl::InvalidArgumentError(StrCat(file.source, ": model.merges[", index,
                                           "] has the piece ", Quoted(piece),
                                           "; accepted: tokens that model.vocab has"));
}

// `prefix_size` bytes at the beginning of a merge's right piece are not part of the result.
absl::StatusOr<MergeTable> MergesFromFile(const TokenizerFile& file, const Vocabulary& vocabulary,
                                          size_t prefix_size,
                                          const absl::flat_hash_set<TokenId>& control_tokens) {
  const TokenizerFile::MergeList& merges = file.merges;
  MergeTable table(merges.entries.size());
  const std::string_view texts = merges.texts;
  std::string without_prefix;
  size_t begin = 0;
  for (uint32_t rank = 0; rank < merges.entries.size(); ++rank) {
    const auto [left_size, right_size] = merges.entries[rank];
    const std::string_view left = texts.substr(begin, left_size);
    const std::string_view right = texts.substr(begin + left_size, right_size);
    std::string_view result = texts.substr(begin, left_size + right_size);
    begin += result.size();
    if (prefix_size > 0) {
      without_prefix = left;
      without_prefix += right.substr(std::min(prefix_size, right.size()));
      result = without_prefix;
    }
    TokenId ids[3];
    const std::string_view pieces[] = {left, right, result};
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

}  // namespace

absl::StatusOr<std::unique_ptr<Model>> BpeModelFromFile(
    const TokenizerFile& file, const Vocabulary& vocabulary,
    const absl::flat_hash_set<TokenId>& control_tokens) {
  const JsonPlace place = file.Root().Member("model");
  if (!file.merges.present) return place.Member("merges").Reject("a list of merges");
  JsonFields fields = place.Fields();
  if (const auto dropout = fields.NumberAtLeast("dropout", 0, 1); dropout.value_or(0) > 0) {
    fields.Reject("dropout", "null or 0", absl::StatusCode::kUnimplemented);
  }
  BpeOptions options;
  options.continuing_subword_prefix = fields.String("continuing_subword_prefix").value_or("");
  options.end_of_word_suffix = fields.String("end_of_word_suffix").value_or("");
  // One that the vocabulary lacks can never be produced.
  if (const auto unk = fields.String("unk_token")) options.unk_token = vocabulary.Find(*unk);
  options.fuse_unk = fields.Bool("fuse_unk").value_or(false);
  options.byte_fallback = fields.Bool("byte_fallback").value_or(false);
  options.ignore_merges = fields.Bool("ignore_merges").value_or(false);
  options.control_tokens = control_tokens;
  if (!fields.status().ok()) return fields.status();
  absl::StatusOr<MergeTable> merges =
      MergesFromFile(file, vocabulary, options.continuing_subword_prefix.size(), control_tokens);
  if (!merges.ok()) return merges.status();
  return std::make_unique<BpeModel>(vocabulary, *std::move(merges), std::move(options));
}

}  // namespace sluice
