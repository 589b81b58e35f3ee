// Instructions on tiles, in plain loops.
#pragma once

#include <cstdint>

namespace sluice::cuda {

// See simt.h; called by all lanes of a warp.
void HostLoadMatrices(const void* row, bool transposed, uint32_t (&out)[4]);
void HostMultiplyTiles(const uint32_t (&a)[4], uint32_t b0, uint32_t b1, float (&c)[4]);

}  // namespace sluice::cuda
