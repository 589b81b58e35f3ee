// Products by wgmma whose threads fetch what they multiply. After simt.h.
#pragma once

#include "kernels/check.h"
#include "kernels/cuda/kernels/gemm_warpgroup.h"

namespace sluice::cuda::SIMT_NAMESPACE {

// The instruction goes on by itself: while a unit of K is multiplied, the next one's weights are
// loaded.
template <ImageFormat kFormat, GemmTile kTile>
class HopperProduct : WarpgroupProduct<kFormat, kTile, GemmPath::kHopper> {
 public:
  SIMT_DEVICE explicit HopperProduct(const GemmTask& task) : Warpgroup(task) {}

  SIMT_DEVICE void Run() {
    Base::template LoadFirst<kAhead>();
    next_ = Base::FirstUnit() + kAhead;
    SIMT_ROLLED
    for (int run = 0; run < runs_; ++run) {
      SumRun(run);
      sums_.Join(run, run + 1 == runs_);
    }
    Base::Finish();
  }

 private:
  using Warpgroup = WarpgroupProduct<kFormat, kTile, GemmPath::kHopper>;
  using Base = BlockProduct<kFormat, kTile, GemmPath::kHopper>;
  using Base::kShape, Base::kStage, Base::runs_, Base::shared_, Base::sums_, Base::units_;
  // Units that come while one is multiplied and the one before it may still be.
  static constexpr int kAhead = kShape.stages - 2;

  SIMT_DEVICE void SumRun(int run) {
    Warpgroup::BeginRun();
    SIMT_ROLLED
    for (int left = units_; left > 0; --left) Advance();
    Warpgroup::EndRun(run);
  }

  // Has the next unit multiplied, and the one kAhead of it brought to where the multiply before the
  // last, which all have waited for, has read.
  SIMT_DEVICE void Advance() {
    WaitForCopies<kAhead - 1>();
    ShowToMultiplies();
    Barrier();
    const int free_stage = stage_ >= 2 ? stage_ - 2 : stage_ - 2 + kShape.stages;
    Base::Load(next_++, free_stage);
    const char* const stage = shared_ + stage_ * kStage;
    Warpgroup::template MultiplyHalf<0>(stage);
    Warpgroup::template MultiplyHalf<1>(stage);
    stage_ = stage_ + 1 == kShape.stages ? 0 : stage_ + 1;
  }

  int next_;  // unit of K to be loaded
  int stage_ = 0;
};

template <ImageFormat kFormat, GemmTile kTile>
SIMT_KERNEL(ShapeOf(kTile, GemmPath::kHopper).threads(), LeastBlocks(kTile))
MultiplyBlockOnHopper(SIMT_TASK GemmTask task) {
  HopperProduct<kFormat, kTile>(task).Run();
}

template <ImageFormat kFormat, GemmTile kTile>
void LaunchTileOnHopper(Stream stream, const GemmTask& task) {
  LaunchProduct<kFormat, kTile, GemmPath::kHopper, MultiplyBlockOnHopper<kFormat, kTile>>(stream,
                                                                                          task);
}

template <ImageFormat kFormat>
void LaunchFormatOnHopper(Stream stream, const GemmTask& task) {
  switch (task.plan.tile) {
    case GemmTile::kDecode:
      return LaunchTileOnHopper<kFormat, GemmTile::kDecode>(stream, task);
    case GemmTile::kMiddle:
      return LaunchTileOnHopper<kFormat, GemmTile::kMiddle>(stream, task);
    case GemmTile::kLarge:
      if constexpr (FitsRegistersOnHopper(GemmTile::kLarge, kFormat)) {
        LaunchTileOnHopper<kFormat, GemmTile::kLarge>(stream, task);
      } else {
        SLUICE_CHECK(task.plan.tile != GemmTile::kLarge);
      }
  }
}

}  // namespace sluice::cuda::SIMT_NAMESPACE
