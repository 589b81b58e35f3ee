// The half of the backend of GPUs that has memory and steps: kernels/device.h over a Gpu
// (kernels/cuda/gpu.h). CudaBackend adds the operations.
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

class CudaDevice;

struct CudaBackendOptions {
  // As GpuBackendOptions has it (kernels/gpu/gpu_devices.h).
  std::function<void(absl::Status)> on_unrecorded;
  // What Device::NewRankGroup returns; UNIMPLEMENTED without it.
  std::function<absl::StatusOr<std::unique_ptr<RankGroup>>(const RankGroupSpec&, CudaDevice&)>
      new_rank_group;
};

// What a device is made of before it exists.
struct CudaDeviceParts {
  std::unique_ptr<Gpu> gpu;
  std::unique_ptr<StreamWatches> watches;
  std::unique_ptr<StagingRing> staging;
  void* pinned_results = nullptr;  // StagingRing::kPartBytes of the GPU's pinned memory

  // RESOURCE_EXHAUSTED where the host or the device lacks memory.
  static absl::StatusOr<CudaDeviceParts> Create(std::unique_ptr<Gpu> gpu);
};

class CudaDevice : public Backend {
 public:
  ~CudaDevice() override;

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

  // ---- Device ----

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
  absl::StatusOr<std::unique_ptr<RankGroup>> NewRankGroup(const RankGroupSpec& spec) override;
  MemorySharing* sharing() override { return &sharing_; }
  int64_t BucketRows(int64_t rows) const override;
  void BeginStep(absl::Span<const AttentionSegment> segments, int64_t rows) override;
  absl::Status RunStep(const StepKey& key, absl::FunctionRef<absl::Status()> enqueue) override;

 protected:
  // Memory that operations use for themselves, by what for; grows as they need.
  enum Scratch { kActivations, kPartials, kCounters, kArguments, kResults, kRows, kNumScratch };

  CudaDevice(CudaDeviceParts parts, CudaBackendOptions options);

  const Kernels& kernels() const { return gpu_->kernels(); }
  const GpuProperties& properties() const { return gpu_->properties(); }
  Stream stream() { return gpu_->stream(); }
  StepTables& step() { return step_; }
  StepRecorder& recorder() { return recorder_; }
  // Keeps the first failure for the next wait.
  bool Note(const absl::Status& status);
  // Room for `bytes`, or null, and the failure is kept. What it held is lost where it grows.
  void* Room(Scratch which, size_t bytes);
  // The same, which BeginEpoch leaves.
  void Reserve(Scratch which, size_t bytes);
  // The same, with `bytes` in it.
  void* Sent(absl::Span<const std::byte> bytes);
  // Room for so many counters that are zero, as each product leaves them; or null.
  unsigned* ZeroCounters(size_t count);

 private:
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
  void* const pinned_results_;         // what CopyOut reads through
  absl::Status failure_;
};

}  // namespace sluice::cuda
