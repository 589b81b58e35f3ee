#include "kernels/cuda/runtime/cuda_gpu.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/kernels/table.h"
#include "kernels/cuda/products_path.h"
#include "kernels/cuda/runtime/cuda_ipc.h"
#include "kernels/cuda/runtime/cuda_status.h"
#include "kernels/cuda/simt/cuda/prepare_kernels.h"
#include "kernels/spin_pause.h"

namespace sluice::cuda {
namespace {

// Raised whenever a kernel gives other bits than before.
constexpr int kBitsVersion = 4;

// How long a wait spins before it sleeps between looks: steps are done within this.
constexpr auto kSpin = std::chrono::milliseconds(20);
constexpr auto kLookEvery = std::chrono::milliseconds(1);
constexpr auto kNap = std::chrono::microseconds(50);
// For the stream to become empty once a watch has failed.
constexpr auto kDrain = std::chrono::seconds(10);

// Of a call whose one value is a size: what is no size it could ever have is no memory either.
absl::Status StatusOfSize(cudaError_t error, const char* call) {
  if (error != cudaErrorInvalidValue) return ToldStatusOf(error, call);
  return absl::ResourceExhaustedError(ToldStatusOf(error, call).message());
}

class CudaEvent final : public GpuEvent {
 public:
  CudaEvent() { error = cudaEventCreateWithFlags(&event, cudaEventDisableTiming); }
  ~CudaEvent() override {
    if (error == cudaSuccess) cudaEventDestroy(event);
  }
  cudaEvent_t event = nullptr;
  cudaError_t error;
};

class CudaRecording final : public Recording {
 public:
  explicit CudaRecording(cudaGraphExec_t graph) : graph(graph) {}
  ~CudaRecording() override { cudaGraphExecDestroy(graph); }
  const cudaGraphExec_t graph;
};

class CudaGpu final : public Gpu {
 public:
  CudaGpu(int index, GpuProperties properties, cudaStream_t stream,
          std::function<void(absl::Status)> on_lost)
      : index_(index),
        properties_(std::move(properties)),
        stream_(stream),
        on_lost_(std::move(on_lost)) {}
  ~CudaGpu() override { cudaStreamDestroy(stream_); }

  const GpuProperties& properties() const override { return properties_; }
  const Kernels& kernels() const override { return on_gpu::KernelTable(); }
  Stream stream() override {
    Select();
    return stream_;
  }

  absl::StatusOr<void*> Allocate(size_t size_bytes) override {
    Select();
    void* memory = nullptr;
    const absl::Status status =
        StatusOfSize(cudaMalloc(&memory, std::max<size_t>(size_bytes, 1)), "cudaMalloc");
    if (status.ok()) return memory;
    return absl::Status(status.code(), absl::StrCat(status.message(), ": ", size_bytes,
                                                    " bytes of the device's memory, of which ",
                                                    this->memory().free, " are free"));
  }
  void Free(void* memory) override {
    Drain();
    Note(cudaFree(memory), "cudaFree");
  }
  absl::StatusOr<void*> AllocatePinned(size_t size_bytes) override {
    Select();
    void* memory = nullptr;
    const absl::Status status = StatusOfSize(cudaMallocHost(&memory, size_bytes), "cudaMallocHost");
    if (status.ok()) return memory;
    return absl::Status(status.code(), absl::StrCat(status.message(), ": ", size_bytes,
                                                    " bytes of the host's memory, pinned"));
  }
  void FreePinned(void* memory) override {
    Drain();
    Note(cudaFreeHost(memory), "cudaFreeHost");
  }
  MemoryUse memory() const override {
    Select();
    MemoryUse use;
    if (!ToldStatusOf(cudaMemGetInfo(&use.free, &use.total), "cudaMemGetInfo").ok()) return {};
    return use;
  }

  absl::StatusOr<std::shared_ptr<void>> AllocateShared(size_t size_bytes) override {
    Select();
    return AllocateCudaShared(index_, size_bytes);
  }
  absl::StatusOr<GpuMemoryHandle> HandleOf(void* shared) override {
    Select();
    return CudaHandleOf(shared);
  }
  absl::StatusOr<OpenedMemory> OpenHandle(const GpuMemoryHandle& handle) override {
    Select();
    return OpenCudaHandle(handle);
  }
  void CloseHandle(void* opened) override {
    Select();
    Note(cudaIpcCloseMemHandle(opened), "cudaIpcCloseMemHandle");
  }

  void Copy(void* to, const void* from, size_t size_bytes) override {
    Select();
    Note(cudaMemcpyAsync(to, from, size_bytes, cudaMemcpyDefault, stream_), "cudaMemcpyAsync");
  }
  void FillWithZero(void* memory, size_t size_bytes) override {
    Select();
    Note(cudaMemsetAsync(memory, 0, size_bytes, stream_), "cudaMemsetAsync");
  }

  std::unique_ptr<GpuEvent> NewEvent() override {
    Select();
    auto event = std::make_unique<CudaEvent>();
    Note(event->error, "cudaEventCreate");
    return event;
  }
  void Record(GpuEvent& event) override {
    Select();
    Note(cudaEventRecord(static_cast<CudaEvent&>(event).event, stream_), "cudaEventRecord");
  }
  absl::Status Wait(GpuEvent& event, Deadline deadline) override;
  void SetWatch(StreamWatch* watch) override { watch_ = watch; }

  absl::StatusOr<std::unique_ptr<Recording>> RecordWork(
      const std::function<absl::Status()>& enqueue) override;
  void Enqueue(Recording& recording) override {
    Select();
    Note(cudaGraphLaunch(static_cast<CudaRecording&>(recording).graph, stream_), "cudaGraphLaunch");
  }

 private:
  // The runtime's calls are about the device that the calling thread has chosen.
  void Select() const { cudaSetDevice(index_); }
  void Note(cudaError_t error, const char* call) { failure_.Update(StatusOf(error, call)); }
  // Waits for all that was enqueued. To free memory waits for it, too, but looks at no watch: it
  // would wait for ever where others take part and are dead.
  void Drain();
  // The first failure so far, launches of kernels included.
  absl::Status TakeFailure() {
    Note(cudaGetLastError(), "kernel launch");
    absl::Status failure = std::exchange(failure_, absl::OkStatus());
    if (!failure.ok() && IsLost() && on_lost_ != nullptr) on_lost_(failure);
    return failure;
  }
  // Whether the process's context is beyond use: an address that is none, say, fails all that comes
  // after it.
  bool IsLost() const {
    const cudaError_t state = cudaStreamQuery(stream_);
    cudaGetLastError();
    return state != cudaSuccess && state != cudaErrorNotReady;
  }

  const int index_;
  const GpuProperties properties_;
  const cudaStream_t stream_;
  const std::function<void(absl::Status)> on_lost_;
  StreamWatch* watch_ = nullptr;
  absl::Status failure_;
};

void CudaGpu::Drain() {
  Select();
  if (cudaStreamQuery(stream_) == cudaSuccess) return;
  cudaGetLastError();  // that it is busy is no failure, and what is one is found by the wait
  CudaEvent end;
  Note(end.error, "cudaEventCreate");
  if (end.error != cudaSuccess) return;
  Record(end);
  absl::Status status = Wait(end, Deadline::Never());
  failure_.Update(std::move(status));
}

absl::Status CudaGpu::Wait(GpuEvent& event, Deadline deadline) {
  Select();
  Note(cudaGetLastError(), "kernel launch");
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  Clock::time_point next_look = begin + kLookEvery, drained_by = Clock::time_point::max();
  absl::Status seen;
  for (;;) {
    const cudaError_t state = cudaEventQuery(static_cast<CudaEvent&>(event).event);
    if (state != cudaErrorNotReady) {
      cudaGetLastError();
      Note(state, "cudaEventQuery");
      absl::Status failure = TakeFailure();
      return seen.ok() ? failure : seen;
    }
    cudaGetLastError();  // that it is not ready is no failure
    const Clock::time_point now = Clock::now();
    if (deadline.HasPassed() || now >= drained_by) {
      return seen.ok() ? absl::DeadlineExceededError("the GPU has not done its work in time")
                       : seen;
    }
    if (watch_ != nullptr && now >= next_look) {
      next_look = now + kLookEvery;
      const absl::Status looked = watch_->Look();
      // What has failed is looked at until the stream is empty: it may have to be released again.
      if (seen.ok() && !looked.ok()) {
        seen = looked;
        drained_by = now + kDrain;
      }
    }
    if (now - begin < kSpin) {
      SpinPause();
    } else {
      std::this_thread::sleep_for(kNap);
    }
  }
}

absl::StatusOr<std::unique_ptr<Recording>> CudaGpu::RecordWork(
    const std::function<absl::Status()>& enqueue) {
  Select();
  // A launch that failed before is not this recording's failure.
  Note(cudaGetLastError(), "kernel launch");
  SLUICE_RETURN_IF_CUDA_ERROR(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
  absl::Status status = enqueue();
  cudaGraph_t graph = nullptr;
  status.Update(StatusOf(cudaStreamEndCapture(stream_, &graph), "cudaStreamEndCapture"));
  status.Update(StatusOf(cudaGetLastError(), "kernel launch"));
  cudaGraphExec_t executable = nullptr;
  if (status.ok())
    status = ToldStatusOf(cudaGraphInstantiate(&executable, graph, 0), "cudaGraphInstantiate");
  if (graph != nullptr) cudaGraphDestroy(graph);
  if (!status.ok()) return status;
  return std::make_unique<CudaRecording>(executable);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Gpu>> OpenCudaGpu(int index, GpuProducts products,
                                                 std::function<void(absl::Status)> on_lost,
                                                 const GpuPlanOptions& plan) {
  int count = 0;
  SLUICE_RETURN_IF_CUDA_ERROR(cudaGetDeviceCount(&count));
  if (index < 0 || index >= count) {
    return absl::FailedPreconditionError(
        absl::StrCat("there is no GPU ", index, "; this machine has ", count));
  }
  cudaDeviceProp device;
  SLUICE_RETURN_IF_CUDA_ERROR(cudaGetDeviceProperties(&device, index));
  if (device.major < 8) {
    return absl::FailedPreconditionError(
        absl::StrCat("GPU ", index, " (", device.name, ") has compute capability ", device.major,
                     ".", device.minor, "; accepted: 8.0 and later"));
  }
  const GemmPath path = PathOf(products);
  if (path != GemmPath::kPortable && (device.major != 9 || device.minor != 0)) {
    return absl::FailedPreconditionError(
        absl::StrCat("GPU ", index, " (", device.name, ") is no Hopper"));
  }
  SLUICE_RETURN_IF_CUDA_ERROR(cudaSetDevice(index));
  on_gpu::PrepareKernels();
  on_gpu::LetKernelsOverlap(plan.kernels_overlap);
  cudaStream_t stream = nullptr;
  SLUICE_RETURN_IF_CUDA_ERROR(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  // GPUs of one major version are held to add alike.
  GpuProperties properties{.backend_name = BackendName(absl::StrCat("cuda sm_", device.major, "x"),
                                                       path, MultiplyFp8(products), kBitsVersion),
                           .num_multiprocessors = plan.multiprocessors > 0
                                                      ? plan.multiprocessors
                                                      : device.multiProcessorCount,
                           .shared_bytes = device.sharedMemPerBlockOptin,
                           .least_rows_of_large_tiles = plan.least_rows_of_large_tiles,
                           .gemm_path = path,
                           .multiplies_fp8 = MultiplyFp8(products)};
  return std::make_unique<CudaGpu>(index, std::move(properties), stream, std::move(on_lost));
}

}  // namespace sluice::cuda
