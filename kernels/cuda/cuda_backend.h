// The backend of GPUs: kernels/backend.h over a Gpu (kernels/cuda/gpu.h). Activations that products
// read are BF16; everything else is as the contract words it.
//
// A row's bits depend neither on the batch nor on which blocks of threads compute it: see
// kernels/cuda/DESIGN.md.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "kernels/backend.h"
#include "kernels/cuda/cuda_memory_sharing.h"
#include "kernels/cuda/device_memory.h"
#include "kernels/cuda/gpu.h"
#include "kernels/cuda/staging_ring.h"
#include "kernels/cuda/step_recorder.h"
#include "kernels/cuda/step_tables.h"
#include "kernels/cuda/stream_watches.h"

namespace sluice::cuda {

class CudaBackend;

struct CudaBackendOptions {
  // As GpuBackendOptions has it (kernels/gpu/gpu_devices.h).
  std::function<void(absl::Status)> on_unrecorded;
  // What Device::NewRankGroup returns; UNIMPLEMENTED without it.
  std::function<absl::StatusOr<std::unique_ptr<RankGroup>>(const RankGroupSpec&, CudaBackend&)>
      new_rank_group;
};

class CudaBackend final : public Backend {
 public:
  // RESOURCE_EXHAUSTED where the host or the device lacks memory.
  static absl::StatusOr<std::unique_ptr<CudaBackend>> Create(std::unique_ptr<Gpu> gpu,
                                                             CudaBackendOptions options = {});
  ~CudaBackend() override;

  // ---- For what takes part in the stream: rank groups ----

  Gpu& gpu() { return *gpu_; }
  // Waits look at `watch` from now on; the watch's failure is theirs, once the stream is empty.
  void AddWatch(StreamWatch* watch) { watches_->Add(watch); }
  void RemoveWatch(StreamWatch* watch) { watches_->Remove(watch); }
  // Ranks meet anew. Recorded steps are void: they name memory or peers that are no more. Where
  // they are to be recorded like other ranks', memory of steps is again as it was after the last
  // ReserveForGemm, so that it grows, and recordings become void, in the same steps on ranks whose
  // processes are of any age.
  void BeginEpoch(RecordSteps record);
  void ForgetRecordedSteps() { recorder_.Forget(); }
  // Whether the device has recorded all that it was to record so far.
  bool RecordsSteps() const { return !recorder_.has_refused(); }
  // The step that is being enqueued waits on the host, and is never recorded.
  void LeaveStepUnrecorded() { recorder_.LeaveUnrecorded(); }

  // ---- Backend ----

  std::string_view name() const override { return gpu_->properties().backend_name; }
  DType operand_dtype() const override { return DType::kBF16; }
  std::optional<sluice::DeviceMemory> memory() const override;
  absl::StatusOr<std::unique_ptr<Buffer>> Allocate(size_t size_bytes) override;
  void CopyIn(absl::Span<const std::byte> host, void* device) override;
  absl::Status CopyOut(const void* device, absl::Span<std::byte> host) override;
  using Backend::Synchronize;
  absl::Status Synchronize(Deadline deadline) override;
  absl::StatusOr<std::unique_ptr<PackedMatrix>> Pack(const PackSpec& spec,
                                                     const RowReader& read) override;
  absl::StatusOr<std::unique_ptr<KvPool>> NewKvPool(const KvPoolSpec& spec) override;
  void ReserveForGemm(const PackedMatrix& weights, int64_t max_rows) override;
  void ReserveForAttention(const KvPool& pool, int64_t max_rows) override {}
  absl::StatusOr<std::unique_ptr<RankGroup>> NewRankGroup(const RankGroupSpec& spec) override;
  MemorySharing* sharing() override { return &sharing_; }
  int64_t BucketRows(int64_t rows) const override;
  void BeginStep(absl::Span<const AttentionSegment> segments, int64_t rows) override;
  absl::Status RunStep(const StepKey& key, absl::FunctionRef<absl::Status()> enqueue) override;
  void GatherRows(MatrixView table, absl::Span<const int32_t> rows, MatrixView out) override;
  absl::Status GatherElements(MatrixView x, absl::Span<const MatrixElement> elements,
                              absl::Span<float> values) override;
  void RmsNorm(MatrixView x, const float* weight, float eps, MatrixView out) override;
  void LayerNorm(MatrixView x, const float* weight, const float* bias, float eps,
                 MatrixView out) override;
  using Ops::Gemm;
  void Gemm(MatrixView x, const PackedMatrix& weights, MatrixView out,
            const GemmEpilogue& epilogue) override;
  void ApplyQkNormRopeAndStoreKv(MatrixView qkv, const QkNormRopeParams& params, int layer,
                                 KvPool& pool) override;
  void CopyBlocks(absl::Span<const KvBlockCopy> copies, KvPool& pool) override;
  void PagedAttention(MatrixView q, const KvPool& pool, int layer, const AttentionOptions& options,
                      MatrixView out) override;
  void Scale(float factor, MatrixView x) override;
  void ScaleRows(const float* factors, MatrixView x) override;
  void SoftCap(float cap, MatrixView x) override;
  void SumSquares(MatrixView x, int num_slices, MatrixView out) override;
  void RmsNormOfPart(MatrixView x, MatrixView squares, int64_t count, const float* weight,
                     float eps) override;
  void AddResidual(MatrixView x, MatrixView residual) override;
  void TreeAdd(absl::Span<const MatrixView> partials, MatrixView out) override;
  void TreeAddToResidual(absl::Span<const MatrixView> partials,
                         const ResidualUpdate& update) override;
  void LogSoftmax(MatrixView x, MatrixView out) override;
  absl::Status TopK(MatrixView x, int k, absl::Span<float> values,
                    absl::Span<int32_t> ids) override;
  absl::Status Sample(MatrixView logits, absl::Span<const SampleRow> rows,
                      absl::Span<SampledRow> results) override;

 private:
  // Memory that operations use for themselves, by what for; grows as they need.
  enum Scratch { kActivations, kPartials, kCounters, kArguments, kResults, kRows, kNumScratch };

  CudaBackend(std::unique_ptr<Gpu> gpu, std::unique_ptr<StreamWatches> watches,
              std::unique_ptr<StagingRing> staging, CudaBackendOptions options);

  const Kernels& kernels() const { return gpu_->kernels(); }
  Stream stream() { return gpu_->stream(); }
  // Keeps the first failure for the next wait.
  bool Note(const absl::Status& status);
  // Room for `bytes`, or null, and the failure is kept. What it held is lost where it grows.
  void* Room(Scratch which, size_t bytes);
  // The same, which BeginEpoch leaves.
  void Reserve(Scratch which, size_t bytes);
  // The same, with `bytes` in it.
  void* Sent(absl::Span<const std::byte> bytes);
  void Elementwise(const ElementwiseTask& task) { kernels().elementwise(stream(), task); }
  // LayerNorm of every head of x by itself, in place; nothing without weights.
  void CentreHeads(MatrixView x, const QkNormRopeParams& params, const float* weight,
                   const float* bias);
  // Enqueues `task`, whose place in the step and the pool is filled in.
  void Store(StoreKvTask task, int layer, const KvPool& pool);
  GemmPlan PlanFor(const WeightImage& weights, int64_t rows) const;
  void TiledGemm(MatrixView x, const WeightImage& weights, const EpilogueTask& epilogue);
  // Enqueues the plan's tiles and merges, of each kind as its task says.
  void Attend(AttentionTask decode, AttentionTask prefill, const DeviceAttentionPlan& plan);
  struct GemmOperand {
    MatrixView x;
    float* scales = nullptr;  // of pairs of FP8 numbers
  };
  // x as tiles are read from it: itself, or rounded and padded in scratch memory; no x where there
  // is no memory.
  GemmOperand Operand(MatrixView x, const WeightImage& weights, const GemmPlan& plan);

  const std::unique_ptr<Gpu> gpu_;
  const std::unique_ptr<StreamWatches> watches_;
  const std::unique_ptr<StagingRing> staging_;
  const CudaBackendOptions options_;
  const std::unique_ptr<GpuEvent> end_;
  CudaMemorySharing sharing_;
  StepTables step_;
  bool has_step_ = true;  // false: the device had no room for the tables of the last one begun
  StepRecorder recorder_;
  DeviceArray scratch_[kNumScratch];
  size_t reserved_[kNumScratch] = {};  // bytes of it
  size_t num_zero_counters_ = 0;       // of that scratch memory
  void* pinned_results_ = nullptr;     // what CopyOut reads through
  absl::Status failure_;
};

}  // namespace sluice::cuda
