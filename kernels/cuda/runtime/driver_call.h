// Calls of the driver, found through the runtime: nothing links the driver.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace sluice::cuda {

// UNAVAILABLE where the driver has no call of that name since CUDA 12. Thread-safe.
absl::StatusOr<void*> FindDriverCallByName(const char* name);

template <class Function>
absl::StatusOr<Function> FindDriverCall(const char* name) {
  const absl::StatusOr<void*> found = FindDriverCallByName(name);
  if (!found.ok()) return found.status();
  return reinterpret_cast<Function>(*found);
}

}  // namespace sluice::cuda
