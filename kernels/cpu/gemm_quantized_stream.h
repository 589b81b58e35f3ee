// Panels of quantised weights as gemm_avx512_quantized.cc packs them, for kernels that multiply
// something else than its vectors. For machines that support InstructionSet::kAvx512Bf16.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/weight_format.h"

namespace sluice {

// Bytes of one group of kWeightGroup inputs of a panel of `width` outputs: the outputs' scales as
// BF16, then the weights.
int64_t QuantizedGroupBytes(WeightFormat format, int64_t width);

// The weights q of `groups` groups of a panel from `w` on, without their scales, as the stream of
// bfloat16 pairs of gemm_avx512-inl.h: kWeightGroup * width * 2 bytes a group, 64-byte aligned.
void UnpackQuantized(WeightFormat format, const std::byte* w, int64_t width, int64_t groups,
                     std::byte* stream);

// sums[r, n] += scale[n] * group[r, n] for `rows` rows of both, kPanelWidth apart, `width` outputs.
void AddScaledGroup(const std::byte* scales, const float* group, int64_t rows, int64_t width,
                    float* sums);

}  // namespace sluice
