// The sums of a block's threads, and the tree that joins those of the runs of K. After simt.h.
#pragma once

#include "kernels/cuda/gemm.h"
#include "kernels/cuda/kernels/elements.h"

namespace sluice::cuda::SIMT_NAMESPACE {

// A thread's sums, in the places of ElementOfC. Sums of runs join those that wait for them as a
// binary counter counts; those of the lowest levels wait in registers, the others in shared memory.
template <ImageFormat kFormat, GemmTile kTile, GemmPath kPath>
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
  // the last, they are the tree over all. The lowest kHeld levels wait in registers.
  template <int kHeld = kShape.held_levels>
  SIMT_DEVICE void Join(int index, bool is_last) {
    int level = 0;
    SIMT_UNROLL
    for (int held = 0; held < kHeld; ++held) {
      if (level != held || (index >> held & 1) == 0) continue;
      ForAll([&](float& sum, int i) { sum = held_[held][i] + sum; });
      ++level;
    }
    if (level >= kHeld) {
      for (; (index >> level & 1) != 0; ++level) {
        const float* const from = Waiting(level - kHeld);
        ForAll([&](float& sum, int i) { sum = from[i * kShape.threads()] + sum; });
      }
    }
    if (is_last) return;
    SIMT_UNROLL
    for (int held = 0; held < kHeld; ++held) {
      if (level == held) ForAll([&](float& sum, int i) { held_[held][i] = sum; });
    }
    if (level < kHeld) return;
    float* const to = Waiting(level - kHeld);
    ForAll([&](float& sum, int i) { to[i * kShape.threads()] = sum; });
  }

  // Leaves the sums to the block that comes last of those that share the outputs, which joins them.
  // Whether this is the one. `tile`: of outputs and tokens; `scratch`: shared by the block.
  SIMT_DEVICE bool JoinSplits(const GemmTask& task, int64_t tile, int split, char* scratch) {
    constexpr int64_t kFloats = int64_t{kShape.sums()} * kShape.threads();
    float* const partials = task.partials + tile * task.plan.splits * kFloats + Thread();
    float* const own = partials + split * kFloats;
    ForAll([&](float& sum, int i) { own[i * kShape.threads()] = sum; });
    WaitForOthers();
    auto* const num_before = reinterpret_cast<unsigned*>(scratch);
    // What the block's barriers order, the fences of one thread pass on for all.
    if (Thread() == 0) {
      Fence();
      *num_before = AtomicAdd(task.counters + tile, 1);
      Fence();
    }
    WaitForOthers();
    if (*num_before + 1 != static_cast<unsigned>(task.plan.splits)) return false;
    if (Thread() == 0) task.counters[tile] = 0;
    SIMT_ROLLED
    for (int begin = 0; begin < task.plan.splits; begin += kPartsAtATime) {
      JoinParts(partials + begin * kFloats, Smaller()(task.plan.splits, kPartsAtATime));
      Join<kHeldBesideParts>(begin / kPartsAtATime, begin + kPartsAtATime >= task.plan.splits);
    }
    return true;
  }

 private:
  // Sums of splits that are asked for together, as far as there are registers: a thread that asks for
  // one after the other waits for the second-level cache every time. They are the lowest levels of the
  // tree, so that fewer others wait in registers beside them.
  static constexpr int kPartLevels = kShape.sums() <= 8 ? 3 : kShape.sums() <= 32 ? 2 : 1;
  static constexpr int kPartsAtATime = 1 << kPartLevels;
  static constexpr int kHeldBesideParts =
      kShape.held_levels > kPartLevels ? kShape.held_levels - kPartLevels : 0;

  // The tree over the sums of `count` splits, a power of two, which lie from `parts` on.
  SIMT_DEVICE void JoinParts(const float* parts, int count) {
    float sums[kPartsAtATime][kShape.sums()];
    SIMT_UNROLL
    for (int part = 0; part < kPartsAtATime; ++part) {
      if (part >= count) continue;
      const float* const from = parts + part * kShape.sums() * kShape.threads();
      SIMT_UNROLL
      for (int i = 0; i < kShape.sums(); ++i) {
        sums[part][i] = LoadUncached(from + i * kShape.threads());
      }
    }
    SIMT_UNROLL
    for (int step = 1; step < kPartsAtATime; step *= 2) {
      SIMT_UNROLL
      for (int part = 0; part < kPartsAtATime; part += 2 * step) {
        if (part + step >= count) continue;
        SIMT_UNROLL
        for (int i = 0; i < kShape.sums(); ++i) sums[part][i] += sums[part + step][i];
      }
    }
    ForAll([&](float& sum, int i) { sum = sums[0][i]; });
  }

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

  // Of the levels in shared memory.
  SIMT_DEVICE static float* Waiting(int level) {
    constexpr auto kBegin = static_cast<int>(WaitingSumsBegin(kTile, kFormat, kPath));
    return SharedMemory<float>() + kBegin / 4 + Thread() + level * kShape.sums() * kShape.threads();
  }

  Columns sums_[kShape.tiles_per_warp];
  float held_[kShape.held_levels > 0 ? kShape.held_levels : 1][kShape.sums()];
};

}  // namespace sluice::cuda::SIMT_NAMESPACE
