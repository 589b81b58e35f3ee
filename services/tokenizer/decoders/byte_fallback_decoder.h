// ByteFallback: tokens such as "<0xE2>" become bytes, and runs of them text.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "services/tokenizer/decoders/decoder.h"

namespace sluice {

// The byte that a token of the form "<0x..>" stands for; nullopt for any other token.
std::optional<uint8_t> ByteOfToken(std::string_view token);

// What becomes of a run of byte tokens that is not UTF-8.
enum class BadBytes {
  kSpoilTheRun,     // each byte of the run becomes U+FFFD: Hugging Face's library
  kSpoilThemselves  // only those that form no character: SentencePiece
};

// Text of a run of bytes is held back while a later byte may spoil it.
std::unique_ptr<Decoder> MakeByteFallbackDecoder(BadBytes bad_bytes);

}  // namespace sluice
