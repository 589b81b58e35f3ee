// The instructions that matrix products are computed with, chosen once per backend. Bits of a
// product differ between them (the order in which a product's terms meet is the hardware's), so all
// ranks of a stage must use the same.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace sluice {

enum class InstructionSet {
  kPortable,    // whatever Highway finds: AVX2, AVX-512, NEON, else no vectors
  kAvx512Bf16,  // AVX-512 with VBMI and BF16: dot products of bfloat16 pairs
  kAmxBf16,     // the same, and tiles of bfloat16
};

// "portable", "avx512_bf16", "amx_bf16".
std::string_view Name(InstructionSet set);

// Those that this processor, and this build, can run; the fastest last. Never empty.
const std::vector<InstructionSet>& SupportedInstructionSets();

// Whether `set` is one of them.
bool Supports(InstructionSet set);

// "auto" (the fastest) or the name of a supported one. INVALID_ARGUMENT otherwise, naming those.
absl::StatusOr<InstructionSet> ParseInstructionSet(const std::string& text);

}  // namespace sluice
