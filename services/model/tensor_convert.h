// Conversion of stored elements into the types that kernels read. Pure functions.
#pragma once

#include <cstddef>

#include "absl/types/span.h"
#include "kernels/dtype.h"

namespace sluice {

// Fills `out` with elements of type `to` (F32, exactly, or BF16, rounded to nearest, ties to even),
// made from as many of type `from` (F32, F16 or BF16) at `in`. Either side may have any alignment;
// they don't overlap. REQUIRES: out.size() is a multiple of SizeOf(to).
void ConvertElements(DType from, const std::byte* in, DType to, absl::Span<std::byte> out);

}  // namespace sluice
