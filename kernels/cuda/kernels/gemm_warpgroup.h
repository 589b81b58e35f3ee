// What four warps multiply of a unit of K by wgmma: 64 outputs, whose weights lie in registers as
// mma.sync has them, times the tokens of the block, which the instruction reads from shared memory.
// After simt.h.
#pragma once

#include "kernels/cuda/kernels/gemm_block.h"
#include "kernels/cuda/shared_descriptor.h"

namespace sluice::cuda::SIMT_NAMESPACE {

template <ImageFormat kFormat, GemmTile kTile, GemmPath kPath>
class WarpgroupProduct : protected BlockProduct<kFormat, kTile, kPath> {
 protected:
  using Base = BlockProduct<kFormat, kTile, kPath>;
  using Base::kActivations, Base::kShape, Base::kStage;
  using Base::lane_, Base::sums_;
  static_assert(kShape.tiles_per_warp == 1 && kShape.warps_by_tokens == 1);
  static_assert(kStage % kSwizzleBytes == 0 && kActivations % kSwizzleBytes == 0);

  SIMT_DEVICE explicit WarpgroupProduct(const GemmTask& task) : Base(task) {}

  SIMT_DEVICE void BeginRun() {
    sums_.Clear();
    if constexpr (kScalesGroups) ForgetGroup();
    HoldSums(Multiplied());
  }
  // Has half kHalf of a unit's inputs multiplied, and waits for what was asked for before: its weights
  // are loaded, and made BF16 numbers where they are none, while the half before is multiplied, or,
  // where sums of groups take the registers, once it has been.
  template <int kHalf>
  SIMT_DEVICE void MultiplyHalf(const char* stage) {
    const char* const unit = Base::UnitOf(stage, 0);
    auto& weights = weights_[kScalesGroups ? 0 : kHalf];
    if constexpr (kScalesGroups) {
      AddGroup();
      // A half is a group.
      low_ = GroupScale<kFormat>(unit, lane_ / 4, kHalf);
      high_ = GroupScale<kFormat>(unit, lane_ / 4 + 8, kHalf);
    }
    LoadGroup<kFormat>(unit, kHalf, lane_, weights);
    BeginMultiplies();
    SIMT_UNROLL
    for (int i = 0; i < kGroupFragments; ++i) {
      const int fragment = kHalf * kGroupFragments + i;
      const uint64_t tokens =
          ColumnsFrom(DescriptorOf(SharedAddress(stage + kActivations)), fragment);
      if constexpr (kFormat == ImageFormat::kFp8Pairs) {
        MultiplySharedFp8(weights[i], tokens, Multiplied(), true);
      } else {
        MultiplyShared(weights[i], tokens, Multiplied(), !kScalesGroups || i > 0);
      }
    }
    CommitMultiplies();
    if constexpr (!kScalesGroups) WaitForMultiplies<1>();
  }
  // `run`: of the block's.
  SIMT_DEVICE void EndRun(int run) {
    if constexpr (kScalesGroups) {
      AddGroup();
    } else {
      WaitForMultiplies<0>();
      HoldSums(Multiplied());
    }
    if constexpr (kFormat == ImageFormat::kFp8Pairs) Base::ScaleSums(run);
  }

 private:
  static constexpr bool kScalesGroups = ScalesGroupSums(kFormat);
  using Columns = float[kShape.columns_per_warp][4];

  // Where products are added up.
  SIMT_DEVICE Columns& Multiplied() {
    if constexpr (kScalesGroups) {
      return group_;
    } else {
      return sums_.Of(0);
    }
  }

  // There is none before a run's first: it adds zeroes. From then on a group's first multiply writes
  // over the sums of the one before.
  SIMT_DEVICE void ForgetGroup() {
    SIMT_UNROLL
    for (auto& column : group_) {
      SIMT_UNROLL
      for (float& sum : column) sum = 0;
    }
    low_ = high_ = 0;
  }
  // Adds the sums of the group that is multiplied, times the outputs' scales.
  SIMT_DEVICE void AddGroup() {
    WaitForMultiplies<0>();
    HoldSums(group_);
    Columns& sums = sums_.Of(0);
    SIMT_UNROLL
    for (int n = 0; n < kShape.columns_per_warp; ++n) {
      SIMT_UNROLL
      for (int i = 0; i < 4; ++i) {
        sums[n][i] = FusedMultiplyAdd(group_[n][i], i < 2 ? low_ : high_, sums[n][i]);
      }
    }
  }

  uint32_t weights_[kScalesGroups ? 1 : 2][kGroupFragments][4];  // of a unit, by half
  // Of the group that is multiplied.
  float group_[kScalesGroups ? kShape.columns_per_warp : 1][4];
  float low_ = 0, high_ = 0;
};

}  // namespace sluice::cuda::SIMT_NAMESPACE
