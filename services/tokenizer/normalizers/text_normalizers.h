// Normalizers that put text in: Prepend, Append, Replace and ByteLevel.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "services/tokenizer/normalizers/normalizer.h"

namespace sluice {

// What is put in comes from the first character (Prepend), the last one (Append), or all that it
// stands for (Replace). An empty text stays empty.
absl::StatusOr<std::unique_ptr<Normalizer>> PrependNormalizerFromJson(const JsonPlace& place);
absl::StatusOr<std::unique_ptr<Normalizer>> AppendNormalizerFromJson(const JsonPlace& place);
absl::StatusOr<std::unique_ptr<Normalizer>> ReplaceNormalizerFromJson(const JsonPlace& place);

// Spells the text's bytes in the byte-level alphabet.
std::unique_ptr<Normalizer> MakeByteLevelNormalizer();

}  // namespace sluice
