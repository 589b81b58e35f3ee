// Adapters' matrices as AdapterOps multiplies them, in memory of a backend. Not thread-safe; the
// backend must outlive the memory, which must outlive the factors made in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/adapter_ops.h"
#include "kernels/device.h"

namespace sluice {

// What an adapter adds to a run of a matrix's outputs, in host memory.
struct PlainAdapter {
  absl::Span<const float> a;  // [rank, K]
  absl::Span<const float> b;  // [num_outputs, rank], with the adapter's scale in it
  int64_t rank = 0;
  int64_t first_output = 0;
  int64_t num_outputs = 0;
  int shares_a_with = -1;  // the earlier part that has the same `a`; -1: none
};

class AdapterMemory {
 public:
  explicit AdapterMemory(Device& device) : device_(&device) {}

  // The factors of a matrix of K inputs, cut into equal slices. RESOURCE_EXHAUSTED where the device
  // lacks memory. REQUIRES: at least one part.
  absl::StatusOr<AdapterFactors> Add(absl::Span<const PlainAdapter> parts, int64_t num_inputs,
                                     int num_slices);
  size_t size_bytes() const;

 private:
  absl::StatusOr<const float*> Keep(absl::Span<const float> values);

  Device* device_;
  std::vector<std::unique_ptr<Buffer>> blocks_;  // which matrices share
  std::byte* next_ = nullptr;                    // of the last one
  size_t left_ = 0;
};

}  // namespace sluice
