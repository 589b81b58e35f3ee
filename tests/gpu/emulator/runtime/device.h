// The one GPU of this process that is carried out: its kernels, memory and streams.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "tests/gpu/emulator/machine/global_memory.h"
#include "tests/gpu/emulator/machine/program.h"
#include "tests/gpu/emulator/runtime/work.h"

namespace sluice::cuda::emulator {

constexpr size_t kTotalBytes = size_t{8} << 30;
constexpr size_t kMostSharedBytes = 227 << 10;  // of a block, where a kernel was allowed them
constexpr size_t kSharedBytes = 48 << 10;       // else
constexpr int kMultiprocessors = 8;
constexpr int kMostClusterBlocks = 8;

// Thread-safe. Work is carried out when it is waited for and not before, so that what must be left
// alone until then is seen to be.
class Device {
 public:
  static Device& Get();

  // ---- Kernels, before main() ----
  void AddKernels(const void* fat_binary);
  void AddKernel(const void* fat_binary, const void* host_function, const char* name);
  cudaError_t AllowSharedBytes(const void* host_function, size_t bytes);
  cudaError_t Launch(const cudaLaunchConfig_t& config, const void* host_function, void** arguments);

  // ---- Memory ----
  cudaError_t Allocate(void** memory, size_t bytes);
  cudaError_t AllocatePinned(void** memory, size_t bytes);
  cudaError_t Free(void* memory);  // of either
  cudaError_t Register(void* memory, size_t bytes);
  cudaError_t Unregister(void* memory);
  size_t free_bytes();
  cudaError_t HandleOf(void* memory, cudaIpcMemHandle_t* handle);
  cudaError_t OpenHandle(const cudaIpcMemHandle_t& handle, void** memory);
  // Of the allocation that begins there; 0: none.
  size_t SizeOf(const void* memory);

  // ---- Streams ----
  cudaError_t Enqueue(cudaStream_t stream, Work work);
  cudaError_t EnqueueCopy(cudaStream_t stream, const CopyWork& copy);
  cudaError_t EnqueueAll(cudaStream_t stream, const std::vector<Work>& work);
  // Does what can be done, up to what another process or thread has yet to do: cudaErrorNotReady.
  cudaError_t RunStream(cudaStream_t stream);
  // The same for all streams, until nothing is left.
  cudaError_t RunAll();
  bool IsIdle(cudaStream_t stream);
  cudaStream_t NewStream();
  void EndStream(cudaStream_t stream);
  cudaError_t BeginCapture(cudaStream_t stream);
  cudaError_t EndCapture(cudaStream_t stream, cudaGraph_t* graph);

  cudaError_t lasting_error();

  // On stderr, what the accesses of each kernel have cost so far.
  void PrintTraffic();

 private:
  Device();
  struct Kernel {
    const void* fat_binary = nullptr;
    std::string name;
    size_t shared_bytes = kSharedBytes;
    const Program* program = nullptr;
    Traffic traffic;
  };
  struct Owned {
    size_t bytes = 0;
    int file = -1;
    bool is_device = false;
  };

  cudaError_t Carry(CUstream_st& stream, Work& work);
  std::string CarryLaunch(CUstream_st& stream, const LaunchRequest& launch);
  cudaError_t Prepare(Kernel& kernel);
  cudaError_t Map(void** memory, size_t bytes, bool is_device);
  void AddToStream(cudaStream_t stream, Work work);
  cudaError_t RunLocked(cudaStream_t stream);

  const bool counts_traffic_;
  std::mutex mutex_;
  std::map<const void*, Kernel> kernels_;  // by host function
  std::map<const void*, std::map<std::string, std::unique_ptr<Program>>> programs_;
  GlobalMemory memory_;
  std::map<void*, Owned> owned_;
  size_t allocated_ = 0;
  std::set<cudaStream_t> streams_;
  uint32_t num_streams_ = 0;
  uint32_t num_launches_ = 0;
  cudaError_t lasting_error_ = cudaSuccess;
};

// On stderr.
void Say(const std::string& what);

// Whether this thread records what a stream is asked; then it may not wait or allocate.
bool IsCapturing();
// That it did so, which ends the recording.
cudaError_t FailCapture();

}  // namespace sluice::cuda::emulator
