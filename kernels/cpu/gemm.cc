#include "kernels/cpu/gemm.h"

#include <algorithm>
#include <bit>

#include "kernels/check.h"
#include "kernels/cpu/gemm_activations.h"
#include "kernels/cpu/gemm_epilogue.h"
#include "kernels/cpu/shared_runs.h"

namespace sluice {
namespace {

// The products of some rows with some panels.
class GemmTask {
 public:
  GemmTask(const GemmActivations& x, int64_t first_row, int64_t rows,
           const CpuPackedMatrix& weights, float* scratch)
      : x_(x), first_row_(first_row), rows_(rows), weights_(weights), scratch_(scratch) {}

  // Floats of scratch memory: those a kernel unpacks, and the sums of the tree, which are like a
  // binary counter: set i holds the sum of the last complete run of 2^i slices that still waits for
  // its right-hand neighbour. The sums under way lie behind all of them.
  static int64_t ScratchFloats(int num_slices) {
    return kUnpackedBytes / static_cast<int64_t>(sizeof(float)) +
           (NumLevels(num_slices) + 1) * kMostRows * kPanelWidth;
  }

  // Returns the sums [rows, kPanelWidth].
  const float* MultiplyPanel(int64_t panel) const {
    float* sets = scratch_ + kUnpackedBytes / static_cast<int64_t>(sizeof(float));
    const int64_t set_size = rows_ * kPanelWidth;
    float* under_way = sets + NumLevels(weights_.num_slices()) * set_size;
    const float* sums = nullptr;
    for (int slice = 0; slice < weights_.num_slices(); ++slice) {
      // Each level that waits is added; the sum goes to the first that does not.
      const int levels = std::countr_one(static_cast<unsigned>(slice));
      float* const to = sets + levels * set_size;
      MultiplySlice(panel, slice, levels == 0 ? to : under_way);
      for (int level = 0; level < levels; ++level) {
        AddSums(sets + level * set_size, under_way, set_size, level + 1 == levels ? to : under_way);
      }
      sums = to;
    }
    return sums;
  }

 private:
  static int NumLevels(int num_slices) {
    return std::countr_zero(static_cast<unsigned>(num_slices)) + 1;
  }

  void MultiplySlice(int64_t panel, int slice, float* sums) const {
    const int64_t first_input = slice * weights_.padded_slice_depth();
    const ActivationLayout layout = weights_.kernel().activations;
    const bool is_bf16 =
        layout == ActivationLayout::kBFloat16Tiles || layout == ActivationLayout::kBFloat16Rows;
    const int64_t row_bytes = x_.x_stride * (is_bf16 ? 2 : 4);
    const int64_t skipped = is_bf16 ? 0 : slice * weights_.slice_depth() * 4;
    weights_.kernel().multiply(
        {.x = static_cast<const std::byte*>(x_.x) + first_row_ * row_bytes + skipped,
         .x_stride = x_.x_stride,
         .tile_rows = x_.tile_rows,
         .first_input = first_input,
         .x_sums = x_.sums == nullptr ? nullptr : x_.sums + first_row_ * x_.sums_stride,
         .sums_stride = x_.sums_stride,
         .rows = rows_,
         .w = weights_.Slice(panel, slice),
         .depth = weights_.padded_slice_depth(),
         .width = weights_.PanelOutputs(panel),
         .sums = sums,
         .unpacked = reinterpret_cast<std::byte*>(scratch_)});
  }

  const GemmActivations& x_;
  const int64_t first_row_;
  const int64_t rows_;
  const CpuPackedMatrix& weights_;
  float* scratch_;
};

}  // namespace

void ReserveGemm(CpuContext& context, const CpuPackedMatrix& weights, int64_t max_rows) {
  context.scratch.Reserve(GemmTask::ScratchFloats(weights.num_slices()));
  ReserveActivations(context, weights, max_rows);
}

void Gemm(CpuContext& context, MatrixView x, const CpuPackedMatrix& weights, MatrixView out,
          const GemmEpilogue& epilogue) {
  SLUICE_CHECK(x.cols == weights.num_inputs() && out.cols == weights.num_columns());
  SLUICE_CHECK(!weights.gated() || epilogue.activation.has_value());
  SLUICE_CHECK(x.rows == out.rows && x.dtype == DType::kF32);
  if (x.rows == 0) return;
  const GemmActivations activations = PrepareActivations(context, x, weights);
  const int64_t block_rows = kMostRows / activations.tile_rows * activations.tile_rows;
  const int64_t num_blocks = (x.rows + block_rows - 1) / block_rows;
  const int64_t scratch_floats = GemmTask::ScratchFloats(weights.num_slices());
  // A unit is a panel and a block of rows. Units that follow each other share a panel, so that it
  // is read from memory once.
  SharedRuns runs(weights.layout(), weights.num_panels(), num_blocks);
  context.pool.ParallelFor(runs.count(), [&](int64_t, int worker) {
    float* scratch = context.scratch.Floats(worker, scratch_floats);
    const SharedRuns::Units units = runs.Next(weights.layout().ShareOf(worker));
    for (int64_t unit = units.begin; unit < units.end; ++unit) {
      const int64_t panel = unit / num_blocks;
      const int64_t first_row = unit % num_blocks * block_rows;
      const int64_t rows = std::min(block_rows, x.rows - first_row);
      const GemmTask task(activations, first_row, rows, weights, scratch);
      FinishPanel(task.MultiplyPanel(panel), weights, panel, epilogue, out.Rows(first_row, rows));
    }
  });
}

}  // namespace sluice
