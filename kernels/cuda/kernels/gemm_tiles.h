// Products by mma.sync, an instruction of one warp: each multiplies its tiles of 16 outputs with its
// columns of 8 tokens. After simt.h.
#pragma once

#include "kernels/cuda/kernels/gemm_block.h"

namespace sluice::cuda::SIMT_NAMESPACE {

template <ImageFormat kFormat, GemmTile kTile>
class PortableProduct : BlockProduct<kFormat, kTile, GemmPath::kPortable> {
 public:
  SIMT_DEVICE explicit PortableProduct(const GemmTask& task) : Base(task) {}

  SIMT_DEVICE void Run() {
    SumRuns();
    Base::Finish();
  }

 private:
  using Base = BlockProduct<kFormat, kTile, GemmPath::kPortable>;
  using Base::kActivations, Base::kFragments, Base::kShape, Base::kStage;
  using Base::lane_, Base::runs_, Base::shared_, Base::sums_, Base::units_;

  // Activations of fragment `fragment` for columns 2 * pair and 2 * pair + 1: registers 0 and 1,
  // and 2 and 3.
  SIMT_DEVICE void LoadActivations(const char* stage, int fragment, int pair, uint32_t (&b)[4]) {
    const int matrix = lane_ / 8;
    const int token =
        Base::WarpByTokens() * kShape.columns_per_warp * 8 + pair * 16 + matrix / 2 * 8 + lane_ % 8;
    const int piece = fragment * 2 + matrix % 2;
    LoadMatrices(stage + kActivations + token * 128 + SwizzledPiece(token, piece) * 16, b);
  }

  SIMT_DEVICE void MultiplyUnit(const char* stage) {
    if constexpr (ScalesGroupSums(kFormat)) {
      SIMT_ROLLED
      for (int group = 0; group < 2; ++group) MultiplyGroup(stage, group);
    } else {
      SIMT_UNROLL
      for (int fragment = 0; fragment < kFragments; ++fragment) MultiplyFragment(stage, fragment);
    }
  }

  SIMT_DEVICE void MultiplyFragment(const char* stage, int fragment) {
    uint32_t b[kShape.columns_per_warp / 2][4];
    SIMT_UNROLL
    for (int pair = 0; pair < kShape.columns_per_warp / 2; ++pair) {
      LoadActivations(stage, fragment, pair, b[pair]);
    }
    SIMT_UNROLL
    for (int m = 0; m < kShape.tiles_per_warp; ++m) {
      uint32_t a[4];
      LoadWeights<kFormat>(Base::UnitOf(stage, m), fragment, lane_, a);
      SIMT_UNROLL
      for (int n = 0; n < kShape.columns_per_warp; ++n) {
        MultiplyTiles(a, b[n / 2][n % 2 * 2], b[n / 2][n % 2 * 2 + 1], sums_.Of(m)[n]);
      }
    }
  }

  // The sum over a group of 32 inputs by itself, times the outputs' scales.
  SIMT_DEVICE void MultiplyGroup(const char* stage, int group) {
    uint32_t b[2][kShape.columns_per_warp / 2][4];
    SIMT_UNROLL
    for (int half = 0; half < 2; ++half) {
      SIMT_UNROLL
      for (int pair = 0; pair < kShape.columns_per_warp / 2; ++pair) {
        LoadActivations(stage, group * 2 + half, pair, b[half][pair]);
      }
    }
    SIMT_UNROLL
    for (int m = 0; m < kShape.tiles_per_warp; ++m) {
      const char* const unit = Base::UnitOf(stage, m);
      uint32_t a[2][4];
      LoadWeights<kFormat>(unit, group * 2, lane_, a[0]);
      LoadWeights<kFormat>(unit, group * 2 + 1, lane_, a[1]);
      const float low = GroupScale<kFormat>(unit, lane_ / 4, group),
                  high = GroupScale<kFormat>(unit, lane_ / 4 + 8, group);
      SIMT_UNROLL
      for (int n = 0; n < kShape.columns_per_warp; ++n) {
        float sum[4] = {0, 0, 0, 0};
        SIMT_UNROLL
        for (int half = 0; half < 2; ++half) {
          MultiplyTiles(a[half], b[half][n / 2][n % 2 * 2], b[half][n / 2][n % 2 * 2 + 1], sum);
        }
        SIMT_UNROLL
        for (int i = 0; i < 4; ++i) {
          float& all = sums_.Of(m)[n][i];
          all = FusedMultiplyAdd(sum[i], i < 2 ? low : high, all);
        }
      }
    }
  }

  SIMT_DEVICE void SumRuns() {
    constexpr int kAhead = kShape.stages - 1;
    Base::template LoadFirst<kAhead>();
    int unit = Base::FirstUnit(), stage = 0;
    SIMT_ROLLED
    for (int run = 0; run < runs_; ++run) {
      sums_.Clear();
      SIMT_ROLLED
      for (int left = units_; left > 0; --left, ++unit) {
        WaitForCopies<kAhead - 1>();
        Barrier();
        Base::Load(unit + kAhead, stage == 0 ? kAhead : stage - 1);
        MultiplyUnit(shared_ + stage * kStage);
        stage = stage + 1 == kShape.stages ? 0 : stage + 1;
      }
      sums_.Join(run, run + 1 == runs_);
    }
  }
};

template <ImageFormat kFormat, GemmTile kTile>
SIMT_KERNEL(ShapeOf(kTile).threads(), LeastBlocks(kTile))
MultiplyBlock(SIMT_TASK GemmTask task) {
  PortableProduct<kFormat, kTile>(task).Run();
}

template <ImageFormat kFormat, GemmTile kTile>
void LaunchTile(Stream stream, const GemmTask& task) {
  LaunchProduct<kFormat, kTile, GemmPath::kPortable, MultiplyBlock<kFormat, kTile>>(stream, task);
}

template <ImageFormat kFormat>
void LaunchFormat(Stream stream, const GemmTask& task) {
  switch (task.plan.tile) {
    case GemmTile::kDecode:
      return LaunchTile<kFormat, GemmTile::kDecode>(stream, task);
    case GemmTile::kMiddle:
      return LaunchTile<kFormat, GemmTile::kMiddle>(stream, task);
    case GemmTile::kLarge:
      return LaunchTile<kFormat, GemmTile::kLarge>(stream, task);
  }
}

}  // namespace sluice::cuda::SIMT_NAMESPACE
