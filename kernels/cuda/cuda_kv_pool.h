// Owned keys and values of the device.
#pragma once

#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/backend.h"
#include "kernels/cuda/device_memory.h"
#include "kernels/cuda/kv_pool.h"

namespace sluice::cuda {

class CudaKvPool final : public KvPool {
 public:
  // INVALID_ARGUMENT where heads are larger than the kernels know.
  static absl::StatusOr<std::unique_ptr<KvPool>> Create(const KvPoolSpec& spec, Gpu& gpu);

  size_t size_bytes() const override { return memory_->size_bytes(); }
  const KvLayout& layout() const { return layout_; }
  // Checks that the segments' positions lie in blocks of the pool.
  void CheckSegments(absl::Span<const AttentionSegment> segments) const;

 private:
  CudaKvPool(const KvLayout& layout, std::unique_ptr<DeviceMemory> memory,
             std::unique_ptr<DeviceMemory> flag)
      : layout_(layout), memory_(std::move(memory)), flag_(std::move(flag)) {}

  const KvLayout layout_;
  const std::unique_ptr<DeviceMemory> memory_;
  const std::unique_ptr<DeviceMemory> flag_;
};

// Parts of `copies` that can be carried out at once, in order, so that the whole does what one copy
// after another would.
std::vector<absl::Span<const KvBlockCopy>> IndependentCopies(absl::Span<const KvBlockCopy> copies);

}  // namespace sluice::cuda
