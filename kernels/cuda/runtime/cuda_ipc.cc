#include "kernels/cuda/runtime/cuda_ipc.h"

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstring>

#include "kernels/cuda/runtime/cuda_status.h"
#include "kernels/cuda/runtime/driver_call.h"

namespace sluice::cuda {
namespace {

// An allocation of its own: what is smaller shares pages with others, which IPC would show too.
constexpr size_t kOwnPages = size_t{2} << 20;

static_assert(sizeof(cudaIpcMemHandle_t) == sizeof(GpuMemoryHandle));

// Of the allocation that begins at `memory`, by the driver's word; 0 where it has none: it is asked
// for memory that another process allocated, of which its documentation says nothing.
size_t SizeOfAllocation(void* memory) {
  static const auto& call = *new absl::StatusOr<decltype(&cuMemGetAddressRange_v2)>(
      FindDriverCall<decltype(&cuMemGetAddressRange_v2)>("cuMemGetAddressRange"));
  if (!call.ok()) return 0;
  CUdeviceptr base = 0;
  size_t size = 0;
  const CUresult result = (*call)(&base, &size, reinterpret_cast<CUdeviceptr>(memory));
  return result == CUDA_SUCCESS && base == reinterpret_cast<CUdeviceptr>(memory) ? size : 0;
}

}  // namespace

absl::StatusOr<std::shared_ptr<void>> AllocateCudaShared(int index, size_t size_bytes) {
  const size_t whole_pages = (size_bytes + kOwnPages - 1) / kOwnPages * kOwnPages;
  void* memory = nullptr;
  SLUICE_RETURN_IF_CUDA_ERROR(cudaMalloc(&memory, whole_pages));
  return std::shared_ptr<void>(memory, [index](void* shared) {
    int chosen = 0;
    const bool had_chosen = cudaGetDevice(&chosen) == cudaSuccess;
    cudaSetDevice(index);
    cudaFree(shared);
    if (had_chosen) cudaSetDevice(chosen);
    cudaGetLastError();  // nobody is left to tell
  });
}

absl::StatusOr<GpuMemoryHandle> CudaHandleOf(void* shared) {
  cudaIpcMemHandle_t handle;
  const absl::Status got =
      ToldStatusOf(cudaIpcGetMemHandle(&handle, shared), "cudaIpcGetMemHandle");
  if (!got.ok()) return absl::UnavailableError(got.message());
  GpuMemoryHandle bytes;
  std::memcpy(bytes.data(), &handle, sizeof(handle));
  return bytes;
}

absl::StatusOr<Gpu::OpenedMemory> OpenCudaHandle(const GpuMemoryHandle& bytes) {
  cudaIpcMemHandle_t handle;
  std::memcpy(&handle, bytes.data(), sizeof(handle));
  Gpu::OpenedMemory opened;
  const absl::Status done =
      ToldStatusOf(cudaIpcOpenMemHandle(&opened.memory, handle, cudaIpcMemLazyEnablePeerAccess),
                   "cudaIpcOpenMemHandle");
  if (!done.ok()) return absl::NotFoundError(done.message());
  opened.size_bytes = SizeOfAllocation(opened.memory);
  return opened;
}

}  // namespace sluice::cuda
