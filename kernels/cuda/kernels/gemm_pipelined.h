// Large products by wgmma in a pipeline (gemm_pipeline.h): four warps have weights and tokens copied in
// bulk, a ring of stages ahead; eight multiply, and wait for nothing but stages. Two blocks that have
// the same tokens fetch half of them each for both. After simt.h.
#pragma once

#include "kernels/cuda/gemm_pipeline.h"
#include "kernels/cuda/kernels/gemm_warpgroup.h"

namespace sluice::cuda::SIMT_NAMESPACE {

template <ImageFormat kFormat>
class PipelinedProduct : WarpgroupProduct<kFormat, GemmTile::kLarge, GemmPath::kPipelined> {
 public:
  SIMT_DEVICE explicit PipelinedProduct(const GemmTask& task)
      : Warpgroup(task),
        full_(reinterpret_cast<MemoryBarrier*>(shared_ + kShape.stages * kStage)),
        empty_(full_ + kShape.stages) {}

  SIMT_DEVICE void Run() {
    SetUpBarriers();
    if (Thread() >= kShape.threads()) {
      GiveRegistersBack<kFetchingRegisters>();
      Fetch();
    } else {
      TakeRegisters<kMultiplyingRegisters>();
      WaitForKernelsBefore();
      Multiply();
    }
  }

 private:
  using Warpgroup = WarpgroupProduct<kFormat, GemmTile::kLarge, GemmPath::kPipelined>;
  using Base = BlockProduct<kFormat, GemmTile::kLarge, GemmPath::kPipelined>;
  using Base::kActivations, Base::kShape, Base::kStage, Base::kUnit;
  using Base::lane_, Base::runs_, Base::shared_, Base::sums_, Base::task_;
  using Base::token_block_, Base::units_;
  using Place = PipelinePlace<kShape.stages>;

  SIMT_DEVICE void SetUpBarriers() {
    if (Thread() == 0) {
      for (int stage = 0; stage < kShape.stages; ++stage) {
        InitBarrier(full_ + stage, 1);
        InitBarrier(empty_ + stage, kEmptyArrivals);
      }
      ShowBarriers();
    }
    ClusterBarrier();
  }

  // ---- Warps that fetch ----

  // By one lane of each.
  SIMT_DEVICE void Fetch() {
    const auto num_tiles =
        static_cast<int>(NumTiles(task_.weights.num_outputs, task_.weights.gated));
    tiles_ = Smaller()(Larger()(num_tiles - Base::FirstTile(), 0), kShape.tiles());
    num_units_ = units_ * task_.weights.runs.num_runs;
    const int warp = (Thread() - kShape.threads()) / kWarpSize;
    if (!IsElected()) {
      WaitForKernelsBefore();
    } else if (warp == 0) {
      FetchTokens();
    } else {
      FetchWeights((warp - 1) * kTilesOfFetchingWarp);
    }
  }

  // Tokens, which a kernel before may have written; and says what comes to a stage, of weights, too.
  SIMT_DEVICE void FetchTokens() {
    WaitForKernelsBefore();
    ShowToBulkCopies();
    const int part = RankInCluster() * kTokenPartBytes;
    const int first = Base::FirstUnit(), end = Base::EndUnit();
    const char* from =
        static_cast<const char*>(task_.x.data) + TokenUnit(token_block_, first, num_units_) + part;
    Place place;
    SIMT_ROLLED
    for (int unit = first; unit < end; ++unit, place.Advance(), from += kTokenUnitBytes) {
      WaitForPhase(empty_ + place.stage, place.EmptyParity());
      ArriveAndExpect(full_ + place.stage, StageBytesToCome(kFormat, tiles_));
      CopyBulkToAll<kClusterBlocks>(shared_ + place.stage * kStage + kActivations + part, from,
                                    kTokenPartBytes, full_ + place.stage);
    }
    // The block ends once nobody has more to say to it: every stage has been left by all.
    for (int i = 0; i < kShape.stages; ++i, place.Advance()) {
      WaitForPhase(empty_ + place.stage, place.EmptyParity());
    }
  }

  // Weights of the tiles from `tile` on that are this warp's. They are no kernel's, and the first
  // stages are empty.
  SIMT_DEVICE void FetchWeights(int tile) {
    const int64_t step = int64_t{num_units_} * kUnit;
    const int first = Base::FirstUnit(), end = Base::EndUnit();
    const std::byte* from =
        task_.weights.data + (Base::FirstTile() + tile) * step + int64_t{first} * kUnit;
    const int early = Smaller()(end, first + kShape.stages);
    Place place;
    int unit = first;
    SIMT_ROLLED
    for (; unit < early; ++unit, place.Advance(), from += kUnit) {
      FetchTiles(tile, from, step, place.stage);
    }
    WaitForKernelsBefore();
    SIMT_ROLLED
    for (; unit < end; ++unit, place.Advance(), from += kUnit) {
      WaitForPhase(empty_ + place.stage, place.EmptyParity());
      FetchTiles(tile, from, step, place.stage);
    }
  }
  SIMT_DEVICE void FetchTiles(int first, const std::byte* from, int64_t step, int stage) {
    char* const to = shared_ + stage * kStage + first * kUnit;
    SIMT_UNROLL
    for (int i = 0; i < kTilesOfFetchingWarp; ++i) {
      if (first + i < tiles_) CopyBulk(to + i * kUnit, from + i * step, kUnit, full_ + stage);
    }
  }

  // ---- Those that multiply ----

  SIMT_DEVICE void Multiply() {
    Place place;
    SIMT_ROLLED
    for (int run = 0; run < runs_; ++run) {
      SumRun(run, place);
      sums_.Join(run, run + 1 == runs_);
    }
    Base::Finish();
  }

  SIMT_DEVICE void SumRun(int run, Place& place) {
    Warpgroup::BeginRun();
    int last = -1;  // stage whose second half is still multiplied
    SIMT_ROLLED
    for (int left = units_; left > 0; --left, place.Advance()) {
      WaitForPhase(full_ + place.stage, place.FullParity());
      const char* const stage = shared_ + place.stage * kStage;
      Warpgroup::template MultiplyHalf<0>(stage);
      if (last >= 0) LeaveStage(last);
      Warpgroup::template MultiplyHalf<1>(stage);
      last = place.stage;
    }
    Warpgroup::EndRun(run);
    LeaveStage(last);
  }

  // Every block of the cluster writes to this stage.
  SIMT_DEVICE void LeaveStage(int stage) {
    WarpBarrier();
    if (lane_ < kClusterBlocks) ArriveAt(empty_ + stage, lane_);
  }

  MemoryBarrier* const full_;
  MemoryBarrier* const empty_;
  // Of warps that fetch.
  int tiles_ = 0;  // that there are
  int num_units_ = 0;
};

template <ImageFormat kFormat>
SIMT_KERNEL(kPipelineThreads, 1)
MultiplyBlockPipelined(SIMT_TASK GemmTask task) {
  PipelinedProduct<kFormat>(task).Run();
}

template <ImageFormat kFormat>
void LaunchPipelined(Stream stream, const GemmTask& task) {
  LaunchProduct<kFormat, GemmTile::kLarge, GemmPath::kPipelined, MultiplyBlockPipelined<kFormat>>(
      stream, task);
}

}  // namespace sluice::cuda::SIMT_NAMESPACE
