// What products of all paths share: which outputs and tokens a block has, how weights and
// activations come to its shared memory, a few units of K ahead, and how results leave it. After
// simt.h.
#pragma once

#include "kernels/cuda/gemm.h"
#include "kernels/cuda/gemm_pipeline.h"
#include "kernels/cuda/kernels/elements.h"
#include "kernels/cuda/kernels/gemm_copies.h"
#include "kernels/cuda/kernels/gemm_results.h"
#include "kernels/cuda/kernels/gemm_sums.h"
#include "kernels/cuda/kernels/gemm_weights.h"

namespace sluice::cuda::SIMT_NAMESPACE {

template <ImageFormat kFormat, GemmTile kTile, GemmPath kPath>
class BlockProduct {
 protected:
  static constexpr GemmTileShape kShape = ShapeOf(kTile, kPath, kFormat);
  static constexpr int kUnit = UnitBytes(kFormat);
  static constexpr int kStage = static_cast<int>(StageBytes(kTile, kFormat, kPath));
  // Where a stage has its activations.
  static constexpr int kActivations = static_cast<int>(StageWeightBytes(kTile, kFormat, kPath));
  static_assert(kActivations % 128 == 0);

  SIMT_DEVICE explicit BlockProduct(const GemmTask& task)
      : task_(task),
        shared_(SharedMemory<char>()),
        warp_(Thread() / kWarpSize),
        lane_(Thread() % kWarpSize) {
    const GemmPlan::BlockPlace place = task.plan.PlaceOf(Block());
    token_block_ = place.token_block;
    split_ = place.split;
    output_block_ = place.output_block;
    units_ = static_cast<int>(task.weights.runs.units());
    runs_ = task.weights.runs.num_runs / task.plan.splits;
  }

  // Ends the product once the block's own runs are joined.
  SIMT_DEVICE void Finish() {
    const int64_t tile = int64_t{output_block_} * task_.plan.token_blocks + token_block_;
    if (task_.plan.splits > 1 && !sums_.JoinSplits(task_, tile, split_, shared_)) return;
    BlockResults(task_.epilogue, FirstTile() + WarpByOutputs() * kShape.tiles_per_warp,
                 FirstToken() + WarpByTokens() * kShape.columns_per_warp * 8, lane_, sums_)
        .Write();
  }

  // Sums of pairs of FP8 numbers, over run `run` of the block's, times the scales of both: a few columns
  // at a time, as there are few registers besides sums.
  SIMT_DEVICE void ScaleSums(int run) {
    const WeightImage& weights = task_.weights;
    const int slices = weights.fp8_slices;
    const int slice = (split_ * runs_ + run) * slices / weights.runs.num_runs;
    const int first_token =
        FirstToken() + WarpByTokens() * kShape.columns_per_warp * 8 + lane_ % 4 * 2;
    const int tokens = static_cast<int>(task_.x.rows) - first_token;
    SIMT_UNROLL
    for (int m = 0; m < kShape.tiles_per_warp; ++m) {
      const int tile = FirstTile() + WarpByOutputs() * kShape.tiles_per_warp + m;
      float of_outputs[2] = {0, 0};
      if (tile < NumTiles(weights.num_outputs, weights.gated)) {
        const float* const from = weights.scales + Fp8ScaleAt(tile, lane_ / 4, slice, slices);
        of_outputs[0] = from[0];
        of_outputs[1] = from[8];
      }
      const float* of_tokens = task_.x_scales + int64_t{first_token} * slices + slice;
      SIMT_UNROLL
      for (int n = 0; n < kShape.columns_per_warp; ++n, of_tokens += 8 * slices) {
        float of_token[2] = {0, 0};
        if (n * 8 < tokens) of_token[0] = of_tokens[0];
        if (n * 8 + 1 < tokens) of_token[1] = of_tokens[slices];
        SIMT_UNROLL
        for (int i = 0; i < 4; ++i) sums_.Of(m)[n][i] *= of_outputs[i / 2] * of_token[i % 2];
        if (n % 4 == 3) WarpBarrier();
      }
    }
  }

  SIMT_DEVICE int WarpByOutputs() const { return warp_ % kShape.warps_by_outputs; }
  SIMT_DEVICE int WarpByTokens() const { return warp_ / kShape.warps_by_outputs; }

  // Of the block's.
  SIMT_DEVICE int FirstTile() const { return output_block_ * kShape.tiles(); }
  SIMT_DEVICE int FirstToken() const { return token_block_ * kShape.tokens(); }

  // The block's units of K.
  SIMT_DEVICE int FirstUnit() const { return split_ * runs_ * units_; }
  SIMT_DEVICE int EndUnit() const { return FirstUnit() + runs_ * units_; }

  // Has the first `kCount` units of K copied to as many stages, the weights while the kernels before
  // this one end.
  template <int kCount>
  SIMT_DEVICE void LoadFirst() {
    copies_.Prepare(task_, FirstTile(), FirstToken());
    const int count = Smaller()(kCount, EndUnit() - FirstUnit());
    for (int i = 0; i < count; ++i) copies_.CopyWeights(FirstUnit() + i, Stage(i));
    WaitForKernelsBefore();
    SIMT_UNROLL
    for (int i = 0; i < kCount; ++i) {
      if (i < count) copies_.CopyActivations(FirstUnit() + i, Stage(i));
      CommitCopies();
    }
  }
  // Has unit `unit` of K, where there is one, copied to stage `stage`.
  SIMT_DEVICE void Load(int unit, int stage) {
    if (unit < EndUnit()) {
      copies_.CopyWeights(unit, Stage(stage));
      copies_.CopyActivations(unit, Stage(stage));
    }
    CommitCopies();
  }

  SIMT_DEVICE char* Stage(int stage) const { return shared_ + stage * kStage; }
  SIMT_DEVICE const char* UnitOf(const char* stage, int m) const {
    return stage + (WarpByOutputs() * kShape.tiles_per_warp + m) * kUnit;
  }

  const GemmTask& task_;
  char* const shared_;
  const int warp_, lane_;
  int split_;
  int runs_;   // of this block
  int units_;  // of a run
  int token_block_, output_block_;
  UnitCopies<kFormat, kTile, kPath> copies_;
  BlockSums<kFormat, kTile, kPath> sums_;
};

// Launches kKernel for a task whose plan has this tile and path.
template <ImageFormat kFormat, GemmTile kTile, GemmPath kPath, auto kKernel>
void LaunchProduct(Stream stream, const GemmTask& task) {
  // What is joined at a time: a block's runs, or what splits left.
  const int64_t joined = task.weights.runs.num_runs;
  Launch<kKernel>(
      stream,
      {.blocks = task.plan.blocks(),
       .threads =
           kPath == GemmPath::kPipelined ? kPipelineThreads : ShapeOf(kTile, kPath).threads(),
       .shared_bytes = static_cast<size_t>(GemmSharedBytes(kTile, kFormat, joined, kPath)),
       .cluster = task.plan.cluster()},
      task);
}

}  // namespace sluice::cuda::SIMT_NAMESPACE
