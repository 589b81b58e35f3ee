// Normalizers that look at one character at a time: Lowercase, Strip, StripAccents, Nmt and
// BertNormalizer.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "services/tokenizer/normalizers/normalizer.h"

namespace sluice {

std::unique_ptr<Normalizer> MakeLowercaseNormalizer();
// Takes away marks: U+0301 in "e\u0301", nothing in "é".
std::unique_ptr<Normalizer> MakeStripAccentsNormalizer();
// What Google's translation models were trained with: control characters vanish, all else that is
// blank becomes a space.
std::unique_ptr<Normalizer> MakeNmtNormalizer();

// Takes away whitespace at the beginning, the end or both.
absl::StatusOr<std::unique_ptr<Normalizer>> StripNormalizerFromJson(const JsonPlace& place);
absl::StatusOr<std::unique_ptr<Normalizer>> BertNormalizerFromJson(const JsonPlace& place);

}  // namespace sluice
