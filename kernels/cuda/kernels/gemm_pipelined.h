// Large products by wgmma in a pipeline (gemm_pipeline.h): one thread has weights and tokens copied in
// bulk, a ring of stages ahead; eight warps multiply, and wait for nothing but stages. Two blocks that
// have the same tokens fetch half of them each for both. After simt.h.
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
      if (Thread() == kShape.threads()) {
        Fetch();
      } else {
        WaitForKernelsBefore();
      }
    } else {
      TakeRegisters<kMultiplyingRegisters>();
      WaitForKernelsBefore();
      Multiply();
    }
    // The other block may still say that it needs a stage no more.
    ClusterBarrier();
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

  // ---- The thread that fetches ----

  SIMT_DEVICE void Fetch() {
    const auto num_tiles =
        static_cast<int>(NumTiles(task_.weights.num_outputs, task_.weights.gated));
    tiles_ = Smaller()(Larger()(num_tiles - Base::FirstTile(), 0), kShape.tiles());
    num_units_ = units_ * task_.weights.runs.num_runs;
    weights_from_ = task_.weights.data + int64_t{Base::FirstTile()} * num_units_ * kUnit;
    // Weights are no kernel's; the first stages are empty.
    const int first = Base::FirstUnit(), end = Base::EndUnit();
    const int early = Smaller()(end - first, kShape.stages);
    for (int i = 0; i < early; ++i) {
      Announce(i);
      FetchWeights(first + i, i);
    }
    WaitForKernelsBefore();
    ShowToBulkCopies();
    for (int i = 0; i < early; ++i) FetchTokens(first + i, i);
    Place place{.round = 1};
    SIMT_ROLLED
    for (int unit = first + early; unit < end; ++unit, place.Advance()) {
      WaitForPhase(empty_ + place.stage, place.EmptyParity());
      Announce(place.stage);
      FetchWeights(unit, place.stage);
      FetchTokens(unit, place.stage);
    }
  }

  // All that will come to the stage.
  SIMT_DEVICE void Announce(int stage) {
    ArriveAndExpect(full_ + stage, StageBytesToCome(kFormat, tiles_));
  }
  SIMT_DEVICE void FetchWeights(int unit, int stage) {
    SIMT_ROLLED
    for (int tile = 0; tile < tiles_; ++tile) {
      CopyBulk(shared_ + stage * kStage + tile * kUnit,
               weights_from_ + (int64_t{tile} * num_units_ + unit) * kUnit, kUnit, full_ + stage);
    }
  }
  SIMT_DEVICE void FetchTokens(int unit, int stage) {
    const int part = RankInCluster() * kTokenPartBytes;
    CopyBulkToAll<kClusterBlocks>(
        shared_ + stage * kStage + kActivations + part,
        static_cast<const char*>(task_.x.data) + TokenUnit(token_block_, unit, num_units_) + part,
        kTokenPartBytes, full_ + stage);
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
  // Of the thread that fetches.
  int tiles_ = 0;  // that there are
  int num_units_ = 0;
  const std::byte* weights_from_ = nullptr;
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
