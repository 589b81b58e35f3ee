// kernels/memory_sharing.h over a Gpu: by handles of the driver between processes, by a registry of
// this process's own allocations within it, since no process can open a handle of its own.
#pragma once

#include <memory>

#include "kernels/communicator/process_identity.h"
#include "kernels/cuda/gpu.h"
#include "kernels/memory_sharing.h"

namespace sluice::cuda {

class CudaMemorySharing final : public MemorySharing {
 public:
  // `gpu` is borrowed. `process`: whose allocations these are said to be.
  explicit CudaMemorySharing(Gpu& gpu, const ProcessIdentity& process = ThisProcess())
      : gpu_(gpu), process_(process) {}

  absl::StatusOr<Shared> AllocateShared(size_t size_bytes) override;
  absl::StatusOr<std::unique_ptr<Buffer>> OpenShared(absl::string_view handle) override;
  void CopyShared(const void* from, void* to, size_t size_bytes) override {
    gpu_.Copy(to, from, size_bytes);
  }

 private:
  Gpu& gpu_;
  const ProcessIdentity process_;
};

}  // namespace sluice::cuda
