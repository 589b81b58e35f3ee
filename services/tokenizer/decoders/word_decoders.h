// Decoders of tokens that mark where words begin or end: WordPiece ("##ing"), BPEDecoder
// ("ing</w>") and CTC, which names the space.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "services/tokenizer/decoders/decoder.h"

namespace sluice {

absl::StatusOr<std::unique_ptr<Decoder>> WordPieceDecoderFromJson(const JsonPlace& place);

// What follows the end of a word is held back until it is known whether another token comes.
absl::StatusOr<std::unique_ptr<Decoder>> BpeDecoderFromJson(const JsonPlace& place);

absl::StatusOr<std::unique_ptr<Decoder>> CtcDecoderFromJson(const JsonPlace& place);

}  // namespace sluice
