// How a block of threads goes through units of K that some warps fetch and others multiply, a ring of
// stages apart. Each stage has two barriers that count (MemoryBarrier of simt.h): "full", which one of
// those that fetch arrives at with the bytes that all of them ask for, and "empty", which those who
// multiplied arrive at. Blocks of a cluster fetch parts of a stage for each other, so that a stage is empty once
// it is in all of them. Pure functions, shared by the kernel and its tests.
#pragma once

#include <cstdint>

#include "kernels/cuda/gemm_plan.h"
#include "kernels/cuda/token_image.h"

namespace sluice::cuda {

// Where one has come to in the ring.
template <int kStages>
struct PipelinePlace {
  int stage = 0;
  uint32_t round = 0;

  constexpr void Advance() {
    if (++stage < kStages) return;
    stage = 0;
    ++round;
  }
  // Parities of the phases to wait for: a stage is full for the n-th time after phase n of its
  // barrier, and empty before the first time without anybody having arrived.
  constexpr uint32_t FullParity() const { return round & 1; }
  constexpr uint32_t EmptyParity() const { return (round & 1) ^ 1; }
};

// Each stage has two barriers.
static_assert(2 * 8 * PipelinedShape().stages <= kPipelineBarrierBytes);
static_assert(kImageTokens == PipelinedShape().tokens());

// Besides those that multiply; four warps change their registers together. The first has tokens
// fetched, the others a share of the tiles each: while a stage is multiplied, one thread would not come
// through all the copies of the next.
inline constexpr int kFetchingWarps = 4;
inline constexpr int kFetchingThreads = kFetchingWarps * kWarpSize;
inline constexpr int kTilesOfFetchingWarp =
    (PipelinedShape().tiles() + kFetchingWarps - 2) / (kFetchingWarps - 1);
inline constexpr int kPipelineThreads = PipelinedShape().threads() + kFetchingThreads;

// Registers of a thread, in eights. Those that multiply take what those that fetch give back: no more
// than the block was launched with, which is all of a multiprocessor's by threads, in eights.
inline constexpr int kLaunchedRegisters = 65536 / kPipelineThreads / 8 * 8;
inline constexpr int kFetchingRegisters = 24, kMultiplyingRegisters = 240;
static_assert(kFetchingRegisters % 8 == 0 && kMultiplyingRegisters % 8 == 0);
static_assert(kFetchingRegisters * kFetchingThreads +
                  kMultiplyingRegisters * PipelinedShape().threads() <=
              kLaunchedRegisters * kPipelineThreads);

// A lane of each warp that multiplies says so to every block of the cluster.
inline constexpr int kEmptyArrivals = PipelinedShape().threads() / kWarpSize * kClusterBlocks;

// Bytes that come to a block for a unit of K: its own tiles, of which there are `tiles`, and its
// tokens, of which each block of the cluster fetches a part for all.
constexpr uint32_t StageBytesToCome(ImageFormat format, int tiles) {
  return static_cast<uint32_t>(tiles * UnitBytes(format) + kTokenUnitBytes);
}
inline constexpr int kTokenPartBytes = kTokenUnitBytes / kClusterBlocks;

}  // namespace sluice::cuda
