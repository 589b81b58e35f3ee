// Device memory that other processes of this host open (CUDA IPC), of the device that the calling
// thread has chosen. Thread-safe.
#pragma once

#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"
#include "kernels/cuda/gpu.h"

namespace sluice::cuda {

// Gpu::AllocateShared() on device `index`.
absl::StatusOr<std::shared_ptr<void>> AllocateCudaShared(int index, size_t size_bytes);
// Gpu::HandleOf().
absl::StatusOr<GpuMemoryHandle> CudaHandleOf(void* shared);
// Gpu::OpenHandle().
absl::StatusOr<Gpu::OpenedMemory> OpenCudaHandle(const GpuMemoryHandle& handle);

}  // namespace sluice::cuda
