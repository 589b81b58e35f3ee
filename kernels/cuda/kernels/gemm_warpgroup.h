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
    if constexpr (kScalesGroups) ForgetGroups();
    HoldSums(Multiplied<0>());
    if constexpr (kOverlapsGroups) HoldSums(Multiplied<1>());
  }
  // Has half kHalf of a unit's inputs multiplied, and waits for what was asked for before: its
  // weights are loaded, and made BF16 numbers where they are none, while the half before is
  // multiplied, or, where sums of one group take all registers that there are, once it has been.
  template <int kHalf>
  SIMT_DEVICE void MultiplyHalf(const char* stage) {
    const char* const unit = Base::UnitOf(stage, 0);
    auto& weights = weights_[kHalf % kWeightSets];
    if constexpr (kScalesGroups) {
      if constexpr (!kOverlapsGroups) AddGroup<0, 0>();
      // A half is a group.
      low_[kHalf % kGroupSets] = GroupScale<kFormat>(unit, lane_ / 4, kHalf);
      high_[kHalf % kGroupSets] = GroupScale<kFormat>(unit, lane_ / 4 + 8, kHalf);
    }
    LoadGroup<kFormat>(unit, kHalf, lane_, weights);
    BeginMultiplies();
    SIMT_UNROLL
    for (int i = 0; i < kGroupFragments; ++i) {
      const int fragment = kHalf * kGroupFragments + i;
      const uint64_t tokens =
          ColumnsFrom(DescriptorOf(SharedAddress(stage + kActivations)), fragment);
      if constexpr (kFormat == ImageFormat::kFp8Pairs) {
        MultiplySharedFp8(weights[i], tokens, Multiplied<kHalf>(), true);
      } else {
        MultiplyShared(weights[i], tokens, Multiplied<kHalf>(), !kScalesGroups || i > 0);
      }
    }
    CommitMultiplies();
    if constexpr (!kScalesGroups) WaitForMultiplies<1>();
    // ptxas takes apart what is multiplied from one unit into the next where its sums are read.
    if constexpr (kOverlapsGroups && kHalf == 1) {
      AddGroup<0, 1>();
      AddGroup<1, 0>();
    }
  }
  // `run`: of the block's.
  SIMT_DEVICE void EndRun(int run) {
    if constexpr (kOverlapsGroups) {
      // Every unit has waited for its groups.
    } else if constexpr (kScalesGroups) {
      AddGroup<0, 0>();
    } else {
      WaitForMultiplies<0>();
      HoldSums(Multiplied<0>());
    }
    if constexpr (kFormat == ImageFormat::kFp8Pairs) Base::ScaleSums(run);
  }

 private:
  static constexpr bool kScalesGroups = ScalesGroupSums(kFormat);
  // Whether both groups of a unit are multiplied together, the second while the sums of the first
  // are scaled and added: tiles of few tokens have registers for two groups.
  static constexpr bool kOverlapsGroups = kScalesGroups && kTile == GemmTile::kDecode;
  static constexpr int kGroupSets = kOverlapsGroups ? 2 : 1;
  static constexpr int kWeightSets = kScalesGroups ? kGroupSets : 2;
  using Columns = float[kShape.columns_per_warp][4];

  // Where products of half kHalf are added up.
  template <int kHalf>
  SIMT_DEVICE Columns& Multiplied() {
    if constexpr (kScalesGroups) {
      return groups_[kHalf % kGroupSets];
    } else {
      return sums_.Of(0);
    }
  }

  // There is none before a run's first: it adds zeroes. From then on a group's first multiply
  // writes over the sums of one before.
  SIMT_DEVICE void ForgetGroups() {
    SIMT_UNROLL
    for (int set = 0; set < kGroupSets; ++set) {
      SIMT_UNROLL
      for (auto& column : groups_[set]) {
        SIMT_UNROLL
        for (float& sum : column) sum = 0;
      }
      low_[set] = high_[set] = 0;
    }
  }
  // Waits until no more than kPending groups are multiplied, and adds the sums of the one that has
  // been in set kSet, times the outputs' scales.
  template <int kSet, int kPending>
  SIMT_DEVICE void AddGroup() {
    WaitForMultiplies<kPending>();
    HoldSums(groups_[kSet]);
    Columns& sums = sums_.Of(0);
    SIMT_UNROLL
    for (int n = 0; n < kShape.columns_per_warp; ++n) {
      SIMT_UNROLL
      for (int i = 0; i < 4; ++i) {
        const float scale = i < 2 ? low_[kSet] : high_[kSet];
        sums[n][i] = FusedMultiplyAdd(groups_[kSet][n][i], scale, sums[n][i]);
      }
    }
  }

  uint32_t weights_[kWeightSets][kGroupFragments][4];  // of a unit, by half
  // Of the groups that are multiplied.
  float groups_[kGroupSets][kScalesGroups ? kShape.columns_per_warp : 1][4];
  float low_[kGroupSets] = {}, high_[kGroupSets] = {};
};

}  // namespace sluice::cuda::SIMT_NAMESPACE
