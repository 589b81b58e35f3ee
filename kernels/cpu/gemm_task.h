// A product's inner loops: some rows with one panel, slice by slice.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "kernels/cpu/gemm_activations.h"
#include "kernels/cpu/gemm_epilogue.h"
#include "kernels/cpu/packed_matrix.h"

namespace sluice {

// Takes the sums [rows, kPanelWidth] of rows [row, row + rows) of a task.
using PanelReady = absl::FunctionRef<void(const float* sums, int64_t row, int64_t rows)>;

// The products of some rows with some panels.
class GemmTask {
 public:
  GemmTask(const GemmActivations& x, int64_t first_row, int64_t rows,
           const CpuPackedMatrix& weights, float* scratch)
      : x_(x), first_row_(first_row), rows_(rows), weights_(weights), scratch_(scratch) {}

  // Floats of scratch memory: those a kernel unpacks, and the sums of the tree, which are like a
  // binary counter: set i holds the sum of the last complete run of 2^i slices that still waits for
  // its right-hand neighbour. The sums under way lie behind all of them.
  static int64_t ScratchFloats(const CpuPackedMatrix& weights, int64_t rows) {
    return kUnpackedBytes / static_cast<int64_t>(sizeof(float)) +
           (NumLevels(weights.num_slices()) + 1) * SumsOf(weights.kernel(), rows);
  }

  // Hands on the sums [rows, kPanelWidth] of some rows at a time.
  void MultiplyPanel(int64_t panel, PanelReady ready) const {
    float* sets = scratch_ + kUnpackedBytes / static_cast<int64_t>(sizeof(float));
    const int64_t set_size = SumsOf(weights_.kernel(), rows_);
    float* under_way = sets + NumLevels(weights_.num_slices()) * set_size;
    for (int slice = 0; slice < weights_.num_slices(); ++slice) {
      // Each level that waits is added; the sum goes to the first that does not.
      const int levels = std::countr_one(static_cast<unsigned>(slice));
      float* const to = sets + levels * set_size;
      const bool is_last = slice + 1 == weights_.num_slices();
      MultiplySlice(panel, slice, levels == 0 ? to : under_way, [&](int64_t row, int64_t rows) {
        const int64_t first = row * kPanelWidth, count = rows * kPanelWidth;
        for (int level = 0; level < levels; ++level) {
          AddSums(sets + level * set_size + first, under_way + first, count,
                  (level + 1 == levels ? to : under_way) + first);
        }
        if (is_last) ready(to + first, row, rows);
      });
    }
  }

  // Sums of one slice; `ready` as SliceRun has it, or once for all rows.
  void MultiplySlice(int64_t panel, int slice, float* sums, SumsReady ready) const {
    const int64_t first_input = slice * weights_.padded_slice_depth();
    const ActivationLayout layout = weights_.kernel().activations;
    const bool is_bf16 =
        layout == ActivationLayout::kBFloat16Tiles || layout == ActivationLayout::kBFloat16Blocks;
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
         .unpacked = reinterpret_cast<std::byte*>(scratch_),
         .ready = ready});
    if (!weights_.kernel().hands_on_rows) ready(0, rows_);
  }

  // Floats of the sums of some rows and, where the kernel writes whole blocks, of those that fill
  // one up.
  static int64_t SumsOf(const GemmKernel& kernel, int64_t rows) {
    if (kernel.activations != ActivationLayout::kBFloat16Blocks) return rows * kPanelWidth;
    return (rows + kRowsStep - 1) / kRowsStep * kRowsStep * kPanelWidth;
  }

 private:
  static int NumLevels(int num_slices) {
    return std::countr_zero(static_cast<unsigned>(num_slices)) + 1;
  }

  const GemmActivations& x_;
  const int64_t first_row_;
  const int64_t rows_;
  const CpuPackedMatrix& weights_;
  float* scratch_;
};

// How many rows are multiplied at a time.
inline int64_t BlockRows(const CpuPackedMatrix& weights, int64_t rows, int64_t tile_rows) {
  const GemmKernel& kernel = weights.kernel();
  const int64_t row_bytes = weights.num_slices() * weights.padded_slice_depth() * 2;
  const int64_t step = std::max(kernel.rows_step, tile_rows);
  const int64_t most =
      std::max<int64_t>(1, std::min(kernel.most_rows, kernel.most_row_bytes / row_bytes) / step) *
      step;
  if (kernel.rows_step == 0) return most;
  const int64_t num_blocks = (rows + most - 1) / most;
  return ((rows + num_blocks - 1) / num_blocks + step - 1) / step * step;
}

}  // namespace sluice
