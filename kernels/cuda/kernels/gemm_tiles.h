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
  using Base::kActivations, Base::kShape, Base::kStage;
  using Base::lane_, Base::runs_, Base::shared_, Base::sums_, Base::units_;

  using Activations =
      uint32_t[kShape.columns_per_warp / 2][4];  // of a fragment, by pair of columns

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
      for (int group = 0; group < kUnitGroups; ++group) MultiplyGroup(stage, group);
    } else {
      SIMT_UNROLL
      for (int group = 0; group < kUnitGroups; ++group) MultiplyGroup(stage, group);
    }
  }

  SIMT_DEVICE void MultiplyGroup(const char* stage, int group) {
    Activations b[kGroupFragments];
    SIMT_UNROLL
    for (int i = 0; i < kGroupFragments; ++i) {
      SIMT_UNROLL
      for (int pair = 0; pair < kShape.columns_per_warp / 2; ++pair) {
        LoadActivations(stage, group * kGroupFragments + i, pair, b[i][pair]);
      }
    }
    SIMT_UNROLL
    for (int m = 0; m < kShape.tiles_per_warp; ++m) {
      const char* const unit = Base::UnitOf(stage, m);
      uint32_t a[kGroupFragments][4];
      LoadGroup<kFormat>(unit, group, lane_, a);
      if constexpr (ScalesGroupSums(kFormat)) {
        AddScaled(a, b, GroupScale<kFormat>(unit, lane_ / 4, group),
                  GroupScale<kFormat>(unit, lane_ / 4 + 8, group), sums_.Of(m));
      } else {
        SIMT_UNROLL
        for (int i = 0; i < kGroupFragments; ++i) {
          SIMT_UNROLL
          for (int n = 0; n < kShape.columns_per_warp; ++n) Multiply(a[i], b[i], n, sums_.Of(m)[n]);
        }
      }
    }
  }

  // The sum over a group of inputs by itself, times the outputs' scales.
  SIMT_DEVICE static void AddScaled(const uint32_t (&a)[kGroupFragments][4],
                                    const Activations (&b)[kGroupFragments], float low, float high,
                                    float (&sums)[kShape.columns_per_warp][4]) {
    SIMT_UNROLL
    for (int n = 0; n < kShape.columns_per_warp; ++n) {
      float sum[4] = {0, 0, 0, 0};
      SIMT_UNROLL
      for (int i = 0; i < kGroupFragments; ++i) Multiply(a[i], b[i], n, sum);
      SIMT_UNROLL
      for (int i = 0; i < 4; ++i) {
        sums[n][i] = FusedMultiplyAdd(sum[i], i < 2 ? low : high, sums[n][i]);
      }
    }
  }
  SIMT_DEVICE static void Multiply(const uint32_t (&a)[4], const Activations& b, int column,
                                   float (&sums)[4]) {
    const uint32_t* const of_column = b[column / 2] + column % 2 * 2;
    MultiplyTiles(a, of_column[0], of_column[1], sums);
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
