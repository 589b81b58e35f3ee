// Tokenizer's way from a SentencePiece model.
#include <utility>

#include "services/tokenizer/post_processors/bert_post_processor.h"
#include "services/tokenizer/sentencepiece/sentencepiece_decoder.h"
#include "services/tokenizer/sentencepiece/sentencepiece_model.h"
#include "services/tokenizer/sentencepiece/sentencepiece_normalizer.h"
#include "services/tokenizer/text/strings.h"
#include "services/tokenizer/tokenizer.h"

namespace sluice {
namespace {

// The control piece of that name; kNoToken for none.
TokenId ControlId(const SentencePieceFile& file, std::string_view name) {
  for (size_t id = 0; id < file.pieces.size(); ++id) {
    const bool is_control = file.pieces[id].type == SentencePieceFile::PieceType::kControl;
    if (is_control && file.pieces[id].text == name) return static_cast<TokenId>(id);
  }
  return kNoToken;
}

}  // namespace

absl::StatusOr<std::unique_ptr<const Tokenizer>> Tokenizer::FromSentencePiece(
    std::string_view bytes, std::string_view source, TokenizerConfig config) {
  const absl::StatusOr<SentencePieceFile> file = ParseSentencePieceFile(bytes, source);
  if (!file.ok()) return file.status();
  std::unique_ptr<Tokenizer> tokenizer(new Tokenizer);
  tokenizer->parses_special_by_default_ = false;
  absl::StatusOr<std::unique_ptr<Normalizer>> normalizer = MakeSentencePieceNormalizer(*file);
  if (!normalizer.ok()) {
    return absl::Status(
        normalizer.status().code(),
        StrCat(source, ": normalizer_spec.precompiled_charsmap: ", normalizer.status().message()));
  }
  tokenizer->normalizer_ = *std::move(normalizer);
  absl::StatusOr<Vocabulary> vocabulary = SentencePieceVocabulary(*file, source);
  if (!vocabulary.ok()) return vocabulary.status();
  tokenizer->vocabulary_ = *std::move(vocabulary);
  tokenizer->added_ = SentencePieceSpecials(*file);
  absl::StatusOr<std::unique_ptr<Model>> model =
      MakeSentencePieceModel(*file, tokenizer->vocabulary_, source);
  if (!model.ok()) return model.status();
  tokenizer->model_ = *std::move(model);
  tokenizer->decoder_ = MakeSentencePieceDecoder(*file);
  // The piece that begins a text is added unless the configuration says otherwise.
  const TokenId bos = ControlId(*file, file->bos_piece);
  const TokenId eos = ControlId(*file, file->eos_piece);
  tokenizer->post_processor_ =
      MakeFramingPostProcessor(config.add_bos_token.value_or(true) ? bos : kNoToken,
                               config.add_eos_token.value_or(false) ? eos : kNoToken);
  if (!config.bos_token.has_value() && bos != kNoToken) config.bos_token = file->bos_piece;
  if (!config.eos_token.has_value() && eos != kNoToken) config.eos_token = file->eos_piece;
  tokenizer->config_ = std::move(config);
  tokenizer->BuildTokenTable();
  return tokenizer;
}

}  // namespace sluice
