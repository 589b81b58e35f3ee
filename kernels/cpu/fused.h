// Whether multiply-adds round once.
#pragma once

namespace sluice {

// Of the SIMD target that operations are dispatched to: true on AVX2, AVX-512 and NEON, false
// without vectors. Besides the instructions of products, all that the bits of an operation depend
// on: sums run in an order that the width of a vector does not enter into.
bool HasFusedMultiplyAdd();

}  // namespace sluice
