// How keys and values are kept, by the type of a KvPoolSpec.
//
// F32 and BF16 are plain elements. In FP8 a head vector (the D elements of one head, of the keys or
// of the values of one position) is D codes of FP8 and a scale of its own, the power of two that
// Fp8ScaleFor (kernels/fp8.h) chooses for its largest element. It is a BF16 vector exactly, so
// attention computes with it as with BF16 ones. A vector with an element that is not finite is no
// number throughout. Backends lay codes and scales out as they like.
#pragma once

#include <cstddef>

#include "kernels/dtype.h"

namespace sluice {

// F32, BF16 and F8_E4M3.
constexpr bool IsKvType(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF8E4M3;
}

// Bytes of a head vector of `head_dim` elements, its scale included.
constexpr size_t KvVectorBytes(DType dtype, int head_dim) {
  return static_cast<size_t>(head_dim) * SizeOf(dtype) + (dtype == DType::kF8E4M3 ? 2 : 0);
}

}  // namespace sluice
