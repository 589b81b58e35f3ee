// Panels of quantised weights as gemm_avx512_quantized.cc packs them, for kernels that multiply
// something else than its vectors. For machines that support InstructionSet::kAvx512Bf16.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/weight_format.h"

namespace sluice {

// Where the parts of a slice of a panel of `width` outputs lie.
struct QuantizedSlice {
  const std::byte* scales;  // of the first group,
  int64_t scales_step;      // and bytes from there to the next group's
  const std::byte* groups;  // of kWeightGroup inputs each
  int64_t group_bytes;
};
QuantizedSlice QuantizedSliceOf(WeightFormat format, const std::byte* w, int64_t width,
                                int64_t groups);

// The weights q of `groups` groups of a panel from `w` on, without their scales, as the stream of
// bfloat16 pairs of gemm_avx512-inl.h: kWeightGroup * width * 2 bytes a group, 64-byte aligned.
// Those of INT6 and INT4 are divided by 256, which AddScaledGroups makes up for.
void UnpackQuantized(WeightFormat format, const std::byte* w, int64_t width, int64_t groups,
                     std::byte* stream);

// Groups that AddScaledGroups takes at most.
inline constexpr int64_t kGroupsAdded = 4;

// The sums of groups that follow each other, without their scales.
struct GroupRun {
  const std::byte* scales;  // of the first group
  int64_t scales_step;      // bytes from there to the next group's
  const float* sums;        // of the first group
  int64_t sums_step;        // floats
  int64_t count;
};

// sums[r, n] += scale[n] * group[r, n], group after group, for `rows` rows of all sums, kPanelWidth
// apart, `width` outputs.
void AddScaledGroups(WeightFormat format, const GroupRun& groups, int64_t rows, int64_t width,
                     float* sums);

}  // namespace sluice
