// ByteLevel: reads tokens spelled in the byte-level alphabet as the bytes they stand for. A token
// with any other character stands for its own bytes. Bytes that form no character become U+FFFD.
#pragma once

#include <memory>

#include "services/tokenizer/decoders/decoder.h"

namespace sluice {

std::unique_ptr<Decoder> MakeByteLevelDecoder();

}  // namespace sluice
