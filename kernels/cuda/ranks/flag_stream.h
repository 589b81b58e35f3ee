// A backend's stream with waits for flags and writes to them, by the driver's stream memory
// operations: the GPU's own scheduler waits, no kernel does, so ranks that share a GPU do not keep
// each other from it. Belongs to the backend's thread.
#pragma once

#include <cuda.h>

#include "absl/status/statusor.h"
#include "kernels/cuda/gpu.h"
#include "kernels/cuda/ranks/peer_memory.h"
#include "kernels/gpu_ranks/peer_exchange.h"

namespace sluice::cuda {

// The driver's calls, found through the runtime: nothing links the driver.
struct FlagCalls {
  decltype(&cuStreamWaitValue32_v2) wait;
  decltype(&cuStreamWriteValue32_v2) write;

  // UNAVAILABLE where the driver lacks them. Thread-safe; looked for once.
  static const absl::StatusOr<FlagCalls>& Get();
};

class FlagStream final : public PeerStream {
 public:
  // Borrows all.
  FlagStream(const FlagCalls& calls, const PeerFlagMemory& flags, Gpu& gpu)
      : calls_(calls), flags_(flags), gpu_(gpu) {}

  absl::Status Copy(const void* from, void* to, size_t bytes) override;
  absl::Status Await(PeerFlag& flag) override;
  absl::Status Set(PeerFlag& flag) override;

 private:
  absl::Status Write(PeerFlag& flag, uint32_t value);

  const FlagCalls& calls_;
  const PeerFlagMemory& flags_;
  Gpu& gpu_;
};

}  // namespace sluice::cuda
