// What a product makes of the sums of one panel.
#pragma once

#include "kernels/adapter_ops.h"
#include "kernels/backend.h"
#include "kernels/cpu/packed_matrix.h"

namespace sluice {

// Writes the columns of panel `panel` of `weights`, for as many rows as `out` has, from
// sums [rows, kPanelWidth]. `addends` are added to these first; its row `first_row` is of the first
// row of `out`.
void FinishPanel(const float* sums, const CpuPackedMatrix& weights, int64_t panel,
                 const GemmEpilogue& epilogue, MatrixView out, SumAddends addends = {},
                 int64_t first_row = 0);

// Sums of some rows with a panel of an expert's weights.
struct WeightedSums {
  const float* sums = nullptr;  // [count, kPanelWidth]
  int64_t count = 0;
  int64_t columns = 0;             // of the panel
  const int32_t* rows = nullptr;   // the step's row of each; null: in order
  const float* weights = nullptr;  // of each; null: 1
  const float* bias = nullptr;     // of the panel's columns, or null
};

// Adds every row of sums, plus the bias, times its weight to that of `sums_of_rows`
// [rows, kPanelWidth].
void AddWeightedSums(const WeightedSums& from, float* sums_of_rows);

// out[i] = a[i] + b[i]; out may be one of them.
void AddSums(const float* a, const float* b, int64_t count, float* out);

}  // namespace sluice
