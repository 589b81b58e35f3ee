// SentencePiece's normalizer: its character map, the removal of superfluous spaces, a space in
// front, and a visible character for each space.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "services/tokenizer/normalizers/normalizer.h"
#include "services/tokenizer/sentencepiece/sentencepiece_file.h"

namespace sluice {

// INVALID_ARGUMENT where the character map is malformed.
absl::StatusOr<std::unique_ptr<Normalizer>> MakeSentencePieceNormalizer(
    const SentencePieceFile& file);

}  // namespace sluice
