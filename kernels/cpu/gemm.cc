#include "kernels/cpu/gemm.h"

#include <algorithm>

#include "kernels/check.h"
#include "kernels/cpu/gemm_activations.h"
#include "kernels/cpu/gemm_epilogue.h"
#include "kernels/cpu/gemm_task.h"
#include "kernels/cpu/shared_runs.h"

namespace sluice {

void ReserveGemm(CpuContext& context, const CpuPackedMatrix& weights, int64_t max_rows) {
  context.scratch.Reserve(
      GemmTask::ScratchFloats(weights, std::min(weights.kernel().most_rows, max_rows)));
  ReserveActivations(context, weights, max_rows);
  ReserveRounded(context, weights, max_rows);
}

void Gemm(CpuContext& context, MatrixView x, const CpuPackedMatrix& weights, MatrixView out,
          const GemmEpilogue& epilogue) {
  SLUICE_CHECK(x.cols == weights.num_inputs() && out.cols == weights.num_columns());
  SLUICE_CHECK(!weights.gated() || epilogue.activation.has_value());
  SLUICE_CHECK(x.rows == out.rows && x.dtype == DType::kF32);
  if (x.rows == 0) return;
  x = AsMultiplied(context, x, weights);
  const GemmActivations activations = PrepareActivations(context, x, weights);
  const int64_t block_rows = BlockRows(weights, x.rows, activations.tile_rows);
  const int64_t num_blocks = (x.rows + block_rows - 1) / block_rows;
  const int64_t scratch_floats = GemmTask::ScratchFloats(weights, std::min(block_rows, x.rows));
  SharedRuns runs(weights.layout(), weights.num_panels(), num_blocks,
                  weights.kernel().panels_per_group);
  context.pool.ParallelFor(runs.count(), [&](int64_t, int worker) {
    float* scratch = context.scratch.Floats(worker, scratch_floats);
    const SharedRuns::Units units = runs.Next(weights.layout().ShareOf(worker));
    for (int64_t unit = units.begin; unit < units.end; ++unit) {
      const SharedRuns::Unit of = runs.Of(unit);
      const int64_t first_row = of.block * block_rows;
      const int64_t rows = std::min(block_rows, x.rows - first_row);
      const GemmTask task(activations, first_row, rows, weights, scratch);
      task.MultiplyPanel(of.panel, [&](const float* sums, int64_t row, int64_t ready) {
        FinishPanel(sums, weights, of.panel, epilogue, out.Rows(first_row + row, ready));
      });
    }
  });
}

}  // namespace sluice
