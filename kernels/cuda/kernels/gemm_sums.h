// The sums of a block's threads, and the tree that joins those of the runs of K. After simt.h.
#pragma once

#include "kernels/cuda/gemm.h"
#include "kernels/cuda/kernels/elements.h"

namespace sluice::cuda::SIMT_NAMESPACE {

// A thread's sums, in the places of ElementOfC. Sums of runs join those that wait for them as a
// binary counter counts; those of the lowest levels wait in registers, the others in shared memory.
template <WeightFormat kFormat, GemmTile kTile, GemmPath kPath>
class BlockSums {
 public:
  static constexpr GemmTileShape kShape = ShapeOf(kTile, kPath, kFormat);
  using Columns = float[kShape.columns_per_warp][4];

  SIMT_DEVICE Columns& Of(int tile) { return sums_[tile]; }
  SIMT_DEVICE float At(int tile, int column, int i) const { return sums_[tile][column][i]; }

  SIMT_DEVICE void Clear() {
    ForAll([](float& sum, int) { sum = 0; });
  }

  // Joins the sums with those that wait for them, as sums number `index` of a power of two; after
  // the last, they are the tree over all.
  SIMT_DEVICE void Join(int index, bool is_last) {
    int level = 0;
    SIMT_UNROLL
    for (int held = 0; held < kShape.held_levels; ++held) {
      if (level != held || (index >> held & 1) == 0) continue;
      ForAll([&](float& sum, int i) { sum = held_[held][i] + sum; });
      ++level;
    }
    if (level >= kShape.held_levels) {
      for (; (index >> level & 1) != 0; ++level) {
        const float* const from = Waiting(level);
        ForAll([&](float& sum, int i) { sum = from[i * kShape.threads()] + sum; });
      }
    }
    if (is_last) return;
    SIMT_UNROLL
    for (int held = 0; held < kShape.held_levels; ++held) {
      if (level == held) ForAll([&](float& sum, int i) { held_[held][i] = sum; });
    }
    if (level < kShape.held_levels) return;
    float* const to = Waiting(level);
    ForAll([&](float& sum, int i) { to[i * kShape.threads()] = sum; });
  }

  // Leaves the sums to the block that comes last of those that share the outputs, which joins them.
  // Whether this is the one. `tile`: of outputs and tokens; `scratch`: shared by the block.
  SIMT_DEVICE bool JoinSplits(const GemmTask& task, int64_t tile, int split, char* scratch) {
    constexpr int64_t kFloats = int64_t{kShape.sums()} * kShape.threads();
    float* const partials = task.partials + tile * task.plan.splits * kFloats + Thread();
    float* const own = partials + split * kFloats;
    ForAll([&](float& sum, int i) { own[i * kShape.threads()] = sum; });
    Fence();
    WaitForOthers();
    auto* const num_before = reinterpret_cast<unsigned*>(scratch);
    if (Thread() == 0) *num_before = AtomicAdd(task.counters + tile, 1);
    WaitForOthers();
    if (*num_before + 1 != static_cast<unsigned>(task.plan.splits)) return false;
    Fence();
    if (Thread() == 0) task.counters[tile] = 0;
    for (int other = 0; other < task.plan.splits; ++other) {
      const float* const from = partials + other * kFloats;
      ForAll([&](float& sum, int i) { sum = LoadUncached(from + i * kShape.threads()); });
      Join(other, other + 1 == task.plan.splits);
    }
    return true;
  }

 private:
  // Calls f(sum, index) for all of them.
  template <class F>
  SIMT_DEVICE void ForAll(F f) {
    SIMT_UNROLL
    for (int m = 0; m < kShape.tiles_per_warp; ++m) {
      SIMT_UNROLL
      for (int n = 0; n < kShape.columns_per_warp; ++n) {
        SIMT_UNROLL
        for (int i = 0; i < 4; ++i) f(sums_[m][n][i], (m * kShape.columns_per_warp + n) * 4 + i);
      }
    }
  }

  // For all that have sums.
  SIMT_DEVICE static void WaitForOthers() {
    if constexpr (kPath == GemmPath::kPipelined) {
      PartBarrier<kShape.threads()>();
    } else {
      Barrier();
    }
  }

  SIMT_DEVICE static float* Waiting(int level) {
    constexpr auto kBegin = static_cast<int>(WaitingSumsBegin(kTile, kFormat, kPath));
    return SharedMemory<float>() + kBegin / 4 + Thread() +
           (level - kShape.held_levels) * kShape.sums() * kShape.threads();
  }

  Columns sums_[kShape.tiles_per_warp];
  float held_[kShape.held_levels > 0 ? kShape.held_levels : 1][kShape.sums()];
};

}  // namespace sluice::cuda::SIMT_NAMESPACE
