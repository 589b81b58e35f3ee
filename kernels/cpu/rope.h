// Rotary position embedding.
#pragma once

#include "kernels/backend.h"
#include "kernels/cpu/context.h"

namespace sluice {

// Backend::Rope. Products and sums are rounded one by one, so the bits are those of scalar code.
void Rope(CpuContext& context, MatrixView x, int head_dim, const RopeTables& tables,
          RopeLayout layout);

}  // namespace sluice
