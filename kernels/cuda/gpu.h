// A GPU as the backend drives it: memory, one stream of work, recordings of it, and kernels. There
// are two: NVIDIA's (kernels/cuda/runtime), and one that carries the same kernels out on the host,
// for tests (tests/gpu/host).
//
// Work is enqueued on the stream in call order and done any time before Wait() returns. The first
// failure of enqueued work is kept and returned there. Driven by one thread at a time.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/kernels.h"
#include "kernels/deadline.h"

namespace sluice::cuda {

struct GpuProperties {
  std::string backend_name;  // of the backend that drives it: "cuda sm_9x/mma v2"
  int num_multiprocessors = 1;
  size_t shared_bytes = 48 << 10;         // that a block may have at most
  int64_t least_rows_of_large_tiles = 0;  // GemmDevice of gemm_plan.h
  GemmPath gemm_path = GemmPath::kPortable;
  // Whether pairs of FP8 numbers are multiplied (ImageFormat::kFp8Pairs). Not on the portable path.
  bool multiplies_fp8 = false;
};

// What the bits of results depend on: the kind of device, the instructions that multiply, and which
// version of the kernels.
inline std::string BackendName(const std::string& device, GemmPath path, bool multiplies_fp8,
                               int version) {
  const char* const instructions = multiplies_fp8                ? "/wgmma_fp8 v"
                                   : path == GemmPath::kPortable ? "/mma v"
                                                                 : "/wgmma v";
  return device + instructions + std::to_string(version);
}

// What another process opens an allocation by: cudaIpcMemHandle_t on NVIDIA's.
using GpuMemoryHandle = std::array<std::byte, 64>;

// A point in the stream that the host can wait for.
class GpuEvent {
 public:
  virtual ~GpuEvent() = default;
};

// Work that was enqueued once and can be enqueued again as a whole.
class Recording {
 public:
  virtual ~Recording() = default;
};

// Looked at whenever the host waits for the stream: of work that others take part in.
class StreamWatch {
 public:
  virtual ~StreamWatch() = default;
  // Called about every millisecond of a wait. Not OK: what it watches over has failed, and it has
  // seen to it that the stream does not hang on that.
  virtual absl::Status Look() = 0;
};

class Gpu {
 public:
  virtual ~Gpu() = default;

  virtual const GpuProperties& properties() const = 0;
  virtual const Kernels& kernels() const = 0;
  // What kernels are launched on; a cudaStream_t on NVIDIA's.
  virtual Stream stream() = 0;

  // ---- Memory ----

  // At least 256-byte aligned; what it holds is undefined. RESOURCE_EXHAUSTED names the bytes asked
  // for and those that are free.
  virtual absl::StatusOr<void*> Allocate(size_t size_bytes) = 0;
  // Waits for the work enqueued before, which may use it; a failure is returned by the next Wait().
  virtual void Free(void* memory) = 0;
  // Memory of the host that copies need not go through a second time.
  virtual absl::StatusOr<void*> AllocatePinned(size_t size_bytes) = 0;
  virtual void FreePinned(void* memory) = 0;
  struct MemoryUse {
    size_t total = 0;
    size_t free = 0;
  };
  virtual MemoryUse memory() const = 0;

  // ---- Memory that other processes on this host see ----

  // An allocation of whole pages, aligned and undefined as Allocate's. It may be let go after this
  // Gpu, once nothing uses it any more.
  virtual absl::StatusOr<std::shared_ptr<void>> AllocateShared(size_t size_bytes) = 0;
  // What opens it in another process while it is there. UNAVAILABLE where it can't be shared.
  virtual absl::StatusOr<GpuMemoryHandle> HandleOf(void* shared) = 0;
  // Another process's: this one's own can't be opened. NOT_FOUND where it can't be reached from this
  // GPU, or is no more.
  struct OpenedMemory {
    void* memory = nullptr;
    // Of the allocation, whatever its owner says; 0 where the driver doesn't tell.
    size_t size_bytes = 0;
  };
  virtual absl::StatusOr<OpenedMemory> OpenHandle(const GpuMemoryHandle& handle) = 0;
  // REQUIRES: the work that uses it is done.
  virtual void CloseHandle(void* opened) = 0;

  // ---- Work ----

  // Between memory of the device and pinned memory, either way, or within the device.
  virtual void Copy(void* to, const void* from, size_t size_bytes) = 0;
  virtual void FillWithZero(void* memory, size_t size_bytes) = 0;

  virtual std::unique_ptr<GpuEvent> NewEvent() = 0;
  // The event is done when all work enqueued before this call is.
  virtual void Record(GpuEvent& event) = 0;
  // DEADLINE_EXCEEDED where it is not done in time, else the first failure of the stream, or the
  // watch's, since the last call.
  virtual absl::Status Wait(GpuEvent& event, Deadline deadline) = 0;

  // Looked at in every wait from now on, also those of Free(). Borrowed; null: none.
  virtual void SetWatch(StreamWatch* watch) = 0;

  // ---- Recordings ----

  // What `enqueue` enqueues is recorded instead of done. Its failure, or that of the device, is
  // returned, and then nothing was recorded. `enqueue` must not allocate, free or wait.
  virtual absl::StatusOr<std::unique_ptr<Recording>> RecordWork(
      const std::function<absl::Status()>& enqueue) = 0;
  virtual void Enqueue(Recording& recording) = 0;
};

}  // namespace sluice::cuda
