#include "services/tokenizer/sentencepiece/sentencepiece_model.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "services/tokenizer/models/bpe_model.h"
#include "services/tokenizer/models/ranked_merges.h"
#include "services/tokenizer/models/unigram_model.h"
#include "services/tokenizer/text/strings.h"

namespace sluice {
namespace {

using PieceType = SentencePieceFile::PieceType;

TokenId UnknownId(const SentencePieceFile& file) {
  for (size_t id = 0; id < file.pieces.size(); ++id) {
    if (file.pieces[id].type == PieceType::kUnknown) return static_cast<TokenId>(id);
  }
  return kNoToken;
}

// Of normal pieces, the highest score first; equal scores have equal ranks.
std::vector<uint32_t> RanksOfScores(const SentencePieceFile& file) {
  std::vector<TokenId> normal;
  for (size_t id = 0; id < file.pieces.size(); ++id) {
    if (file.pieces[id].type == PieceType::kNormal) normal.push_back(static_cast<TokenId>(id));
  }
  const auto score = [&](TokenId id) { return file.pieces[id].score; };
  std::sort(normal.begin(), normal.end(),
            [&](TokenId a, TokenId b) { return score(a) > score(b); });
  std::vector<uint32_t> ranks(file.pieces.size(), MergeRule::kNoRank);
  uint32_t rank = 0;
  for (size_t i = 0; i < normal.size(); ++i) {
    if (i > 0 && score(normal[i]) != score(normal[i - 1])) ++rank;
    ranks[normal[i]] = rank;
  }
  return ranks;
}

std::unique_ptr<Model> MakeBpe(const SentencePieceFile& file, const Vocabulary& vocabulary) {
  BpeOptions options;
  options.unk_token = UnknownId(file);
  options.fuse_unk = true;
  options.byte_fallback = file.byte_fallback;
  for (size_t id = 0; id < file.pieces.size(); ++id) {
    if (file.pieces[id].type == PieceType::kUserDefined) {
      options.whole_tokens.push_back(static_cast<TokenId>(id));
    }
  }
  return std::make_unique<BpeModel>(vocabulary, MergesOfRanks(vocabulary, RanksOfScores(file)),
                                    std::move(options));
}

std::unique_ptr<Model> MakeUnigram(const SentencePieceFile& file, const Vocabulary& vocabulary) {
  UnigramOptions options;
  options.unk_id = UnknownId(file);
  options.byte_fallback = file.byte_fallback;
  options.single_precision = true;
  std::vector<double> scores;
  for (size_t id = 0; id < file.pieces.size(); ++id) {
    const SentencePieceFile::Piece& piece = file.pieces[id];
    scores.push_back(piece.score);
    if (piece.type == PieceType::kUserDefined) {
      options.user_defined.insert(static_cast<TokenId>(id));
    } else if (piece.type != PieceType::kNormal) {
      options.unused.insert(static_cast<TokenId>(id));
    }
  }
  return std::make_unique<UnigramModel>(vocabulary, std::move(scores), std::move(options));
}

}  // namespace

absl::StatusOr<Vocabulary> SentencePieceVocabulary(const SentencePieceFile& file,
                                                   std::string_view source) {
  size_t num_bytes = 0;
  for (const SentencePieceFile::Piece& piece : file.pieces) num_bytes += piece.text.size();
  Vocabulary vocabulary;
  vocabulary.Reserve(file.pieces.size(), num_bytes);
  for (size_t id = 0; id < file.pieces.size(); ++id) {
    const std::string& text = file.pieces[id].text;
    if (text.empty() ||
        vocabulary.Add(text, static_cast<TokenId>(id)) != Vocabulary::AddResult::kAdded) {
      return absl::InvalidArgumentError(
          StrCat(source, ": pieces[", id, "] is ", Quoted(text), "; accepted: a text of its own"));
    }
  }
  return vocabulary;
}

AddedVocabulary SentencePieceSpecials(const SentencePieceFile& file) {
  AddedVocabulary added;
  for (size_t id = 0; id < file.pieces.size(); ++id) {
    const SentencePieceFile::Piece& piece = file.pieces[id];
    const bool is_unknown = piece.type == PieceType::kUnknown;
    if (!is_unknown && piece.type != PieceType::kControl) continue;
    AddedToken token;
    token.id = static_cast<TokenId>(id);
    token.content = piece.text;
    token.special = true;
    // SentencePiece writes nothing for control pieces.
    added.AddToken(std::move(token), is_unknown ? file.unk_surface : "");
  }
  added.BuildFinders();
  return added;
}

absl::StatusOr<std::unique_ptr<Model>> MakeSentencePieceModel(const SentencePieceFile& file,
                                                              const Vocabulary& vocabulary,
                                                              std::string_view source) {
  const auto reject = [&](std::string_view what) {
    return absl::UnimplementedError(StrCat(source, ": ", what));
  };
  if (file.treat_whitespace_as_suffix) {
    return reject("trainer_spec.treat_whitespace_as_suffix is true; accepted: false");
  }
  switch (file.model_type) {
    case SentencePieceFile::ModelType::kUnigram:
      return MakeUnigram(file, vocabulary);
    case SentencePieceFile::ModelType::kBpe:
      break;
    default:
      return reject(StrCat("trainer_spec.model_type is ", static_cast<int>(file.model_type),
                           "; accepted: 1 (unigram) or 2 (BPE)"));
  }
  for (size_t id = 0; id < file.pieces.size(); ++id) {
    if (file.pieces[id].type == PieceType::kUnused) {
      return reject(StrCat("pieces[", id, "] of a BPE model is marked unused"));
    }
  }
  return MakeBpe(file, vocabulary);
}

}  // namespace sluice
