// Rotary position embedding.
#pragma once

#include "kernels/backend.h"
#include "kernels/cpu/context.h"

namespace sluice {

// Rotates the first 2 * pairs elements of every head of x [T, heads * head_dim] F32 in place, with the
// step's angles (Ops::ApplyQkNormRopeAndStoreKv). Products and sums are rounded one by one, so the bits are those of scalar code.
void Rope(CpuContext& context, MatrixView x, int head_dim, const RopeTables& tables,
          RopeLayout layout);

}  // namespace sluice
