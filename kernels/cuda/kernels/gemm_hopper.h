// Products by wgmma, an instruction of four warps: 64 outputs, whose weights lie in registers as
// mma.sync has them, times the tokens of the block, which the instruction reads from shared memory.
// After simt.h.
#pragma once

#include "kernels/cuda/kernels/gemm_block.h"
#include "kernels/cuda/shared_descriptor.h"

namespace sluice::cuda::SIMT_NAMESPACE {

// The instruction goes on by itself: while a unit of K is multiplied, the next one's weights are
// loaded, and made BF16 numbers where they are none.
template <WeightFormat kFormat, GemmTile kTile>
class HopperProduct : BlockProduct<kFormat, kTile, GemmPath::kHopper> {
 public:
  SIMT_DEVICE explicit HopperProduct(const GemmTask& task) : Base(task) {}

  SIMT_DEVICE void Run() {
    Base::template LoadFirst<kAhead>();
    next_ = Base::FirstUnit() + kAhead;
    SIMT_ROLLED
    for (int run = 0; run < runs_; ++run) {
      SumRun();
      sums_.Join(run, run + 1 == runs_);
    }
    Base::Finish();
  }

 private:
  using Base = BlockProduct<kFormat, kTile, GemmPath::kHopper>;
  using Base::kActivations, Base::kFragments, Base::kShape, Base::kStage;
  using Base::lane_, Base::runs_, Base::shared_, Base::sums_, Base::units_;
  // Units that come while one is multiplied and the one before it may still be.
  static constexpr int kAhead = kShape.stages - 2;
  static_assert(kShape.tiles_per_warp == 1 && kShape.warps_by_tokens == 1);
  static_assert(kStage % kSwizzleBytes == 0 && kActivations % kSwizzleBytes == 0);

  SIMT_DEVICE void SumRun() {
    sums_.Clear();
    SIMT_ROLLED
    for (int left = units_; left > 0; --left) Advance();
    WaitForMultiplies<0>();
  }

  // Has the next unit multiplied, and the one kAhead of it brought to where the multiply before the
  // last, which all have waited for, has read.
  SIMT_DEVICE void Advance() {
    WaitForCopies<kAhead - 1>();
    ShowToMultiplies();
    Barrier();
    const int free_stage = stage_ >= 2 ? stage_ - 2 : stage_ - 2 + kShape.stages;
    Base::Load(next_++, free_stage);
    Multiply(shared_ + stage_ * kStage);
    stage_ = stage_ + 1 == kShape.stages ? 0 : stage_ + 1;
  }

  // Half of the unit's weights are loaded while the other half is multiplied.
  SIMT_DEVICE void Multiply(const char* stage) {
    uint64_t tokens = DescriptorOf(SharedAddress(stage + kActivations));
    SIMT_UNROLL
    for (int half = 0; half < 2; ++half) {
      SIMT_UNROLL
      for (int i = 0; i < kFragments / 2; ++i) {
        LoadWeights<kFormat>(Base::UnitOf(stage, 0), half * kFragments / 2 + i, lane_,
                             weights_[half][i]);
      }
      BeginMultiplies();
      SIMT_UNROLL
      for (int i = 0; i < kFragments / 2; ++i) {
        MultiplyShared(weights_[half][i], tokens, sums_.Of(0));
        tokens = NextColumns(tokens);
      }
      CommitMultiplies();
      WaitForMultiplies<1>();
    }
  }

  int next_;  // unit of K to be loaded
  int stage_ = 0;
  uint32_t weights_[2][kFragments / 2][4];  // of a unit, by half
};

template <WeightFormat kFormat, GemmTile kTile>
SIMT_KERNEL(ShapeOf(kTile, GemmPath::kHopper).threads(), 1)
MultiplyBlockOnHopper(SIMT_TASK GemmTask task) {
  HopperProduct<kFormat, kTile>(task).Run();
}

template <WeightFormat kFormat, GemmTile kTile>
void LaunchTileOnHopper(Stream stream, const GemmTask& task) {
  LaunchProduct<kFormat, kTile, GemmPath::kHopper, MultiplyBlockOnHopper<kFormat, kTile>>(stream,
                                                                                          task);
}

template <WeightFormat kFormat>
void LaunchFormatOnHopper(Stream stream, const GemmTask& task) {
  switch (task.plan.tile) {
    case GemmTile::kDecode:
      return LaunchTileOnHopper<kFormat, GemmTile::kDecode>(stream, task);
    case GemmTile::kMiddle:
      return LaunchTileOnHopper<kFormat, GemmTile::kMiddle>(stream, task);
    case GemmTile::kLarge:
      return LaunchTileOnHopper<kFormat, GemmTile::kLarge>(stream, task);
  }
}

}  // namespace sluice::cuda::SIMT_NAMESPACE
