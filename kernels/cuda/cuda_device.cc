#include "kernels/cuda/cuda_device.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "kernels/check.h"
#include "kernels/cuda/cuda_kv_pool.h"
#include "kernels/cuda/packed_matrix.h"

namespace sluice::cuda {
namespace {

// Buckets of rows are powers of two up to the tokens of a large tile, and whole tiles beyond: rows
// that are added cost no tile more.
constexpr int64_t kLargestPower = ShapeOf(GemmTile::kLarge).tokens();

}  // namespace

absl::StatusOr<CudaDeviceParts> CudaDeviceParts::Create(std::unique_ptr<Gpu> gpu) {
  CudaDeviceParts parts{.gpu = std::move(gpu), .watches = std::make_unique<StreamWatches>()};
  parts.gpu->SetWatch(parts.watches.get());
  auto staging = StagingRing::Create(*parts.gpu);
  if (!staging.ok()) return staging.status();
  parts.staging = *std::move(staging);
  const absl::StatusOr<void*> results = parts.gpu->AllocatePinned(StagingRing::kPartBytes);
  if (!results.ok()) return results.status();
  parts.pinned_results = *results;
  return parts;
}

CudaDevice::CudaDevice(CudaDeviceParts parts, CudaBackendOptions options)
    : gpu_(std::move(parts.gpu)),
      watches_(std::move(parts.watches)),
      staging_(std::move(parts.staging)),
      options_(std::move(options)),
      end_(gpu_->NewEvent()),
      sharing_(*gpu_),
      step_(*gpu_, *staging_),
      recorder_(*gpu_, options_.on_unrecorded),
      pinned_results_(parts.pinned_results) {}

CudaDevice::~CudaDevice() { gpu_->FreePinned(pinned_results_); }

// ---- Memory and waits ----

bool CudaDevice::Note(const absl::Status& status) {
  if (!status.ok()) failure_.Update(status);
  return status.ok();
}

void* CudaDevice::Room(Scratch which, size_t bytes) {
  const absl::StatusOr<bool> moved = scratch_[which].Reserve(std::max<size_t>(bytes, 1), *gpu_);
  if (!moved.ok() || *moved) {
    SLUICE_CHECK(!recorder_.is_recording());
    // No recording names what the host sends or is told: those steps wait for it.
    if (which != kArguments && which != kResults) recorder_.Forget();
    if (which == kCounters) num_zero_counters_ = 0;
  }
  return Note(moved.status()) ? scratch_[which].as<void>() : nullptr;
}

void CudaDevice::Reserve(Scratch which, size_t bytes) {
  reserved_[which] = std::max(reserved_[which], bytes);
  Room(which, bytes);
}

void* CudaDevice::Sent(absl::Span<const std::byte> bytes) {
  SLUICE_CHECK(!recorder_.is_recording());
  void* const memory = Room(kArguments, bytes.size());
  return memory != nullptr && Note(staging_->CopyIn(bytes, memory)) ? memory : nullptr;
}

unsigned* CudaDevice::ZeroCounters(size_t count) {
  auto* const counters = static_cast<unsigned*>(Room(kCounters, count * sizeof(unsigned)));
  if (counters != nullptr && num_zero_counters_ < count) {
    SLUICE_CHECK(!recorder_.is_recording());
    gpu_->FillWithZero(counters, count * sizeof(unsigned));
    num_zero_counters_ = count;
  }
  return counters;
}

std::optional<sluice::DeviceMemory> CudaDevice::memory() const {
  const Gpu::MemoryUse use = gpu_->memory();
  return sluice::DeviceMemory{.total_bytes = use.total, .free_bytes = use.free};
}

absl::StatusOr<std::unique_ptr<Buffer>> CudaDevice::Allocate(size_t size_bytes) {
  return DeviceMemory::AllocateZeroed(size_bytes, *gpu_);
}

void CudaDevice::CopyIn(absl::Span<const std::byte> host, void* device) {
  SLUICE_CHECK(!recorder_.is_recording());
  Note(staging_->CopyIn(host, device));
}

absl::Status CudaDevice::CopyOut(const void* device, absl::Span<std::byte> host) {
  const auto* from = static_cast<const std::byte*>(device);
  absl::Status status;
  do {
    const size_t some = std::min(host.size(), StagingRing::kPartBytes);
    if (some > 0) gpu_->Copy(pinned_results_, from, some);
    status = Synchronize();
    if (!status.ok()) return status;
    if (some > 0) std::memcpy(host.data(), pinned_results_, some);
    host.remove_prefix(some);
    from += some;
  } while (!host.empty());
  return status;
}

absl::Status CudaDevice::Synchronize(Deadline deadline) {
  SLUICE_CHECK(!recorder_.is_recording());
  gpu_->Record(*end_);
  absl::Status status = std::exchange(failure_, absl::OkStatus());
  status.Update(gpu_->Wait(*end_, deadline));
  return status;
}

absl::StatusOr<std::unique_ptr<PackedMatrix>> CudaDevice::Pack(const PackSpec& spec,
                                                               const RowReader& read) {
  return CudaPackedMatrix::Pack(spec, read, *gpu_, *staging_);
}

absl::StatusOr<std::unique_ptr<KvPool>> CudaDevice::NewKvPool(const KvPoolSpec& spec) {
  return CudaKvPool::Create(spec, *gpu_);
}

absl::StatusOr<std::unique_ptr<RankGroup>> CudaDevice::NewRankGroup(const RankGroupSpec& spec) {
  if (options_.new_rank_group == nullptr) {
    return absl::UnimplementedError("this backend was made without a way to meet other ranks");
  }
  return options_.new_rank_group(spec, *this);
}

// ---- Steps ----

void CudaDevice::BeginEpoch(RecordSteps record) {
  recorder_.Begin(record);
  if (record != RecordSteps::kLikeOtherRanks) return;
  step_.Clear();
  for (int which = 0; which < kNumScratch; ++which) {
    scratch_[which] = {};
    if (reserved_[which] > 0) Room(static_cast<Scratch>(which), reserved_[which]);
  }
}

int64_t CudaDevice::BucketRows(int64_t rows) const {
  if (rows > kLargestPower) return (rows + kLargestPower - 1) / kLargestPower * kLargestPower;
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(rows)));
}

void CudaDevice::BeginStep(absl::Span<const AttentionSegment> segments, int64_t rows) {
  SLUICE_CHECK(!recorder_.is_recording());
  const absl::StatusOr<bool> moved = step_.Begin(segments, rows);
  // Where one array had no room, others may have moved, and it itself is gone.
  if (!moved.ok() || *moved) recorder_.Forget();
  has_step_ = Note(moved.status());
}

absl::Status CudaDevice::RunStep(const StepKey& key, absl::FunctionRef<absl::Status()> enqueue) {
  // The next wait says why.
  if (!has_step_) return absl::OkStatus();
  absl::Status status = recorder_.Run({.step = key, .parts = step_.parts()}, enqueue);
  // Where an operation had no memory, the step was not all that it is to be when it is recorded.
  if (!failure_.ok()) recorder_.Forget();
  return status;
}

}  // namespace sluice::cuda
