// Rotary position embedding.
#pragma once

#include "kernels/backend.h"
#include "kernels/cpu/context.h"

namespace sluice {

// Rotates the first 2 * pairs elements of every head of x [T, heads * head_dim] F32 in place, with the
// step's angles (Ops::ApplyQkNormRopeAndStoreKv). Products and sums are rounded one by one, so the bits are those of scalar code.
void Rope(CpuContext& context, MatrixView x, int head_dim, const RopeTables& tables,
          RopeLayout layout);

// Where a part of every head lies in a row: that of head h from h * step + first to (h + 1) * step.
struct HeadLayout {
  int64_t count = 0;
  int64_t step = 0;
  int64_t first = 0;
};

// The parts that `from` names in x, their first 2 * pairs elements rotated as Rope does, to where
// `to` names in out; out may be x with the same layout. Others of out stay.
void RopeHeads(CpuContext& context, MatrixView x, const HeadLayout& from, MatrixView out,
               const HeadLayout& to, const RopeTables& tables, RopeLayout layout);

}  // namespace sluice
