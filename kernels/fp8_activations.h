// Inputs of products with FP8 weights that are rounded to FP8 as well: those of a row in a slice of K
// (PackSpec of kernels/backend.h) relative to a power of two of their own, the scale that Fp8ScaleFor
// finds for the largest of them. So a row's numbers depend on no other row, and on no rank, for a
// slice lies on one; and each of them is a BF16 number. Pure functions.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "absl/types/span.h"
#include "kernels/fp8.h"

namespace sluice {

// `to` may be `from`. A slice with a number that is not finite becomes NaN as a whole.
inline void RoundSliceToFp8(absl::Span<const float> from, float* to) {
  uint32_t largest = 0;
  for (const float value : from) {
    largest = std::max(largest, std::bit_cast<uint32_t>(value) & 0x7fffffff);
  }
  const uint16_t scale_bits = Fp8ScaleFor(largest);
  const auto scale = std::bit_cast<float>(uint32_t{scale_bits} << 16);
  if (std::isnan(scale)) {
    std::fill_n(to, from.size(), std::numeric_limits<float>::quiet_NaN());
    return;
  }
  const float inverse = Fp8Inverse(scale_bits);
  for (size_t i = 0; i < from.size(); ++i) {
    to[i] = FloatFromFp8(Fp8FromFloat(from[i] * inverse)) * scale;
  }
}

}  // namespace sluice
