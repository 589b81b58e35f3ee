// Unicode's normalization forms (UAX 15), in time linear in the text but for sorting runs of marks.
#pragma once

#include <memory>

#include "services/tokenizer/normalizers/normalizer.h"

namespace sluice {

enum class NormalizationForm { kNfc, kNfd, kNfkc, kNfkd };

// Offsets through it: a character covers all the characters it was made of.
std::unique_ptr<Normalizer> MakeUnicodeNormalizer(NormalizationForm form);

}  // namespace sluice
