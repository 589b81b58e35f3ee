// Builds vocabulary and model of a SentencePiece file.
#pragma once

#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "services/tokenizer/models/model.h"
#include "services/tokenizer/sentencepiece/sentencepiece_file.h"
#include "services/tokenizer/vocabulary/added_vocabulary.h"
#include "services/tokenizer/vocabulary/vocabulary.h"

namespace sluice {

// INVALID_ARGUMENT where a piece is there twice; `source` is the file's name in messages.
absl::StatusOr<Vocabulary> SentencePieceVocabulary(const SentencePieceFile& file,
                                                   std::string_view source);

// Control pieces and the unknown one, which are special tokens.
AddedVocabulary SentencePieceSpecials(const SentencePieceFile& file);

// `vocabulary` is borrowed. UNIMPLEMENTED for models other than BPE and unigram and for what these
// cannot do here.
absl::StatusOr<std::unique_ptr<Model>> MakeSentencePieceModel(const SentencePieceFile& file,
                                                              const Vocabulary& vocabulary,
                                                              std::string_view source);

}  // namespace sluice
