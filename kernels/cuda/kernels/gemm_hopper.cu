#include "simt.h"

// After simt.h.
#include "kernels/cuda/kernels/gemm_block.h"
#include "kernels/cuda/kernels/launchers.h"
#include "kernels/cuda/shared_descriptor.h"

namespace sluice::cuda::SIMT_NAMESPACE {
namespace {

// Products by wgmma, an instruction of four warps: 64 outputs, whose weights lie in registers as
// mma.sync has them, times the tokens of the block, which the instruction reads from shared memory.
// It goes on by itself: while a unit of K is multiplied, the next one's weights are loaded.
template <GemmTile kTile>
class HopperProduct : BlockProduct<WeightFormat::kBF16, kTile, GemmPath::kHopper> {
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
  using Base = BlockProduct<WeightFormat::kBF16, kTile, GemmPath::kHopper>;
  using Base::kFragments, Base::kShape, Base::kStage, Base::kWeightBytes;
  using Base::lane_, Base::runs_, Base::shared_, Base::sums_, Base::units_;
  // Units that come while one is multiplied and the one before it may still be.
  static constexpr int kAhead = kShape.stages - 2;
  static_assert(kShape.tiles_per_warp == 1 && kShape.warps_by_tokens == 1);
  static_assert(kStage % kSwizzleBytes == 0 && kWeightBytes % kSwizzleBytes == 0);

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
    uint64_t tokens = DescriptorOf(SharedAddress(stage + kWeightBytes));
    SIMT_UNROLL
    for (int half = 0; half < 2; ++half) {
      SIMT_UNROLL
      for (int i = 0; i < kFragments / 2; ++i) {
        LoadWeights<WeightFormat::kBF16>(Base::UnitOf(stage, 0), half * kFragments / 2 + i, lane_,
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

template <GemmTile kTile>
SIMT_KERNEL(ShapeOf(kTile, GemmPath::kHopper).threads(), 1)
MultiplyBlockOnHopper(SIMT_TASK GemmTask task) {
  HopperProduct<kTile>(task).Run();
}

template <GemmTile kTile>
void LaunchTile(Stream stream, const GemmTask& task) {
  LaunchProduct<WeightFormat::kBF16, kTile, GemmPath::kHopper, MultiplyBlockOnHopper<kTile>>(stream,
                                                                                             task);
}

}  // namespace

void GemmHopper(Stream stream, const GemmTask& task) {
  switch (task.plan.tile) {
    case GemmTile::kDecode:
      return LaunchTile<GemmTile::kDecode>(stream, task);
    case GemmTile::kMiddle:
      return LaunchTile<GemmTile::kMiddle>(stream, task);
    case GemmTile::kLarge:
      return LaunchTile<GemmTile::kLarge>(stream, task);
  }
}

}  // namespace sluice::cuda::SIMT_NAMESPACE
