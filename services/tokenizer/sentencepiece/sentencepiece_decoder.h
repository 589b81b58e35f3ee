// What SentencePiece makes of pieces: their visible spaces become spaces, but for the one that was
// put in front of the text, and byte pieces text.
#pragma once

#include <memory>

#include "services/tokenizer/decoders/decoder.h"
#include "services/tokenizer/sentencepiece/sentencepiece_file.h"

namespace sluice {

std::unique_ptr<Decoder> MakeSentencePieceDecoder(const SentencePieceFile& file);

}  // namespace sluice
