// Precompiled: SentencePiece's replacement rules as Hugging Face's library applies them, to
// graphemes of up to 5 bytes first and then to characters.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "services/tokenizer/normalizers/normalizer.h"

namespace sluice {

absl::StatusOr<std::unique_ptr<Normalizer>> PrecompiledNormalizerFromJson(const JsonPlace& place);

}  // namespace sluice
