// Checks that a model fits into the memory limit of its process.
#pragma once

#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "services/model/weights.h"

namespace sluice {

// In memory of the host, as memory_plan.h counts it.
struct KeptMemory {
  std::string who;  // keeps it, such as "shard 0-1"
  uint64_t weight_bytes = 0;
  uint64_t kv_bytes = 0;
};

// `limit_bytes`: MemoryLimit(). RESOURCE_EXHAUSTED, with the figures and what would fit, where
// weights, keys and values alone are more than that: without this the kernel would end the process
// that keeps them halfway through loading, or once the cache fills.
absl::Status CheckFits(const KeptMemory& kept, uint64_t limit_bytes);

// The same of what this process is about to load of `source`, against the limit of its own control
// groups; `kept` is asked with the format that `weights` means there. Not for what goes to a GPU.
absl::Status CheckFitsHost(const WeightSource& source, WeightType weights,
                           absl::FunctionRef<KeptMemory(WeightFormat)> kept);

}  // namespace sluice
