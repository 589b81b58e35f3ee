// Pinned memory of the host through which bytes reach the device: a few parts in turn, each used
// again once the copies out of it are done. Driven by the backend's thread.
#pragma once

#include <array>
#include <cstddef>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/cuda/gpu.h"

namespace sluice::cuda {

class StagingRing {
 public:
  static constexpr size_t kPartBytes = size_t{4} << 20;
  static constexpr int kParts = 4;

  // Borrows the Gpu.
  static absl::StatusOr<std::unique_ptr<StagingRing>> Create(Gpu& gpu);
  ~StagingRing();
  StagingRing(const StagingRing&) = delete;
  StagingRing& operator=(const StagingRing&) = delete;

  // Room for `size` bytes, at most kPartBytes, 256-byte aligned. Copies out of it must be enqueued
  // before the next call. Waits for the copies of a part that is used again: what
  // Gpu::Wait() returns.
  absl::StatusOr<absl::Span<std::byte>> Take(size_t size);

  // Enqueues a copy of `bytes`, of any number, to memory of the device.
  absl::Status CopyIn(absl::Span<const std::byte> bytes, void* device);

 private:
  StagingRing(Gpu& gpu, std::byte* memory);

  Gpu& gpu_;
  std::byte* const memory_;
  int part_ = 0;
  size_t used_ = 0;  // of that part
  std::array<std::unique_ptr<GpuEvent>, kParts> events_;
  std::array<bool, kParts> in_use_{};  // until its event is done
};

}  // namespace sluice::cuda
