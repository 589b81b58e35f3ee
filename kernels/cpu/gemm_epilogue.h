// What a product makes of the sums of one panel.
#pragma once

#include "kernels/backend.h"
#include "kernels/cpu/packed_matrix.h"

namespace sluice {

// Writes the columns of panel `panel` of `weights`, for as many rows as `out` has, from
// sums [rows, kPanelWidth].
void FinishPanel(const float* sums, const CpuPackedMatrix& weights, int64_t panel,
                 const GemmEpilogue& epilogue, MatrixView out);

// out[i] = a[i] + b[i]; out may be one of them.
void AddSums(const float* a, const float* b, int64_t count, float* out);

}  // namespace sluice
