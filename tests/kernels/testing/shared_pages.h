// Pages that several processes map, by a handle: what stands in for a device's shared memory where
// memory is the host's. Stateless.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/communicator/sealed_memory.h"

namespace sluice {

struct SharedPages {
  SealedMemory memory;
  std::string handle;  // opens it while `memory` lives
};

// UNAVAILABLE where the system has no such memory.
absl::StatusOr<SharedPages> CreateSharedPages(size_t size_bytes);

// Statuses of MemorySharing::OpenShared.
absl::StatusOr<SealedMemory> OpenSharedPages(absl::string_view handle);

}  // namespace sluice
