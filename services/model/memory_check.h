// Whether what is kept of a model fits into the memory that its host lets it have. A pure function.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace sluice {

// In memory of the host, as memory_plan.h counts it.
struct KeptMemory {
  std::string who;  // keeps it, such as "shard 0-1"
  uint64_t weight_bytes = 0;
  uint64_t kv_bytes = 0;
};

// `limit_bytes`: MemoryLimit(). RESOURCE_EXHAUSTED, with the figures and what would fit, where weights,
// keys and values alone are more than that: without this the kernel would end whoever keeps them
// halfway through loading, or once the cache fills.
absl::Status CheckFits(const KeptMemory& kept, uint64_t limit_bytes);

}  // namespace sluice
