// SentencePiece's decoder: visible spaces become spaces, the space that was added in front is
// removed, and byte pieces become text.
#pragma once

#include <memory>

#include "services/tokenizer/decoders/decoder.h"
#include "services/tokenizer/sentencepiece/sentencepiece_file.h"

namespace sluice {

std::unique_ptr<Decoder> MakeSentencePieceDecoder(const SentencePieceFile& file);

}  // namespace sluice
