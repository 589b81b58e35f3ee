#include "tests/gpu/host/host_gpu.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "kernels/check.h"
#include "kernels/cuda/kernels/table.h"
#include "tests/gpu/host/simt/host_grid.h"

namespace sluice::cuda {
namespace {

using Work = std::function<void()>;

// What is not touched costs nothing from here on; below, sanitizers watch over it.
constexpr size_t kLarge = size_t{64} << 20;

}  // namespace

// The stream of a host's GPU.
class HostQueue {
 public:
  void Enqueue(Work work) {
    (recorded_ != nullptr ? *recorded_ : queue_).push_back(std::move(work));
  }
  void Run() {
    for (const Work& work : std::exchange(queue_, {})) work();
  }
  // Where work goes meanwhile; null: it is enqueued.
  void RecordTo(std::vector<Work>* recorded) { recorded_ = recorded; }
  bool is_empty() const { return queue_.empty(); }
  bool is_recording() const { return recorded_ != nullptr; }

  void CountLaunch() { ++num_launches_; }
  int64_t num_launches() const { return num_launches_; }

  // Grids take turns in which thread goes first.
  HostBlock::Order NextOrder() {
    descending_ = !descending_;
    return descending_ ? HostBlock::Order::kDescending : HostBlock::Order::kAscending;
  }

 private:
  std::vector<Work> queue_;
  std::vector<Work>* recorded_ = nullptr;
  bool descending_ = false;
  int64_t num_launches_ = 0;
};

void EnqueueGrid(Stream stream, LaunchShape shape, std::function<void()> kernel) {
  auto* const queue = static_cast<HostQueue*>(stream);
  queue->CountLaunch();
  queue->Enqueue(
      [queue, shape, kernel = std::move(kernel)] { RunGrid(shape, kernel, queue->NextOrder()); });
}

namespace {

// The shared allocations of all Gpus of this process: what a driver knows of all processes.
class SharedAllocations {
 public:
  static SharedAllocations& Get() {
    static auto& all = *new SharedAllocations;
    return all;
  }
  void Add(void* memory, size_t size) {
    absl::MutexLock lock(&mutex_);
    sizes_[memory] = size;
  }
  void Remove(void* memory) {
    absl::MutexLock lock(&mutex_);
    sizes_.erase(memory);
  }
  absl::StatusOr<size_t> SizeOf(void* memory) {
    absl::MutexLock lock(&mutex_);
    const auto known = sizes_.find(memory);
    if (known == sizes_.end()) return absl::NotFoundError("no such memory is shared");
    return known->second;
  }

 private:
  absl::Mutex mutex_;
  std::map<void*, size_t> sizes_ ABSL_GUARDED_BY(mutex_);
};

class HostEvent final : public GpuEvent {};

class HostRecording final : public Recording {
 public:
  explicit HostRecording(std::vector<Work> work) : work(std::move(work)) {}
  const std::vector<Work> work;
};

class HostGpu final : public Gpu {
 public:
  explicit HostGpu(const HostGpuOptions& options)
      : tells_sizes_(options.tells_sizes),
        properties_{
            .backend_name = BackendName("cuda_host", options.gemm_path, options.multiplies_fp8, 3),
            .num_multiprocessors = options.num_multiprocessors,
            .shared_bytes = options.shared_bytes,
            .gemm_path = options.gemm_path,
            .multiplies_fp8 = options.multiplies_fp8},
        memory_bytes_(options.memory_bytes),
        can_record_(options.can_record) {}
  ~HostGpu() override { SLUICE_CHECK(sizes_.empty()); }

  const GpuProperties& properties() const override { return properties_; }
  const Kernels& kernels() const override { return on_host::KernelTable(); }
  Stream stream() override { return &queue_; }

  absl::StatusOr<void*> Allocate(size_t size_bytes) override {
    SLUICE_CHECK(!queue_.is_recording());
    const size_t size = std::max<size_t>(size_bytes, 1);
    if (size > memory_bytes_ - used_) return OutOfMemory(size_bytes);
    absl::StatusOr<void*> memory = size >= kLarge ? Map(size) : Take(size);
    if (!memory.ok()) return memory;
    sizes_[*memory] = size;
    used_ += size;
    return memory;
  }

  void Free(void* memory) override {
    SLUICE_CHECK(!queue_.is_recording());
    if (!queue_.is_empty()) Drain();
    const auto known = sizes_.find(memory);
    if (known == sizes_.end()) return std::free(memory);  // a null one
    const size_t size = known->second;
    used_ -= size;
    sizes_.erase(known);
    if (size >= kLarge) {
      munmap(memory, size);
    } else {
      std::free(memory);
    }
  }

  absl::StatusOr<void*> AllocatePinned(size_t size_bytes) override { return Allocate(size_bytes); }
  void FreePinned(void* memory) override { Free(memory); }
  MemoryUse memory() const override {
    return {.total = memory_bytes_, .free = memory_bytes_ - used_};
  }

  absl::StatusOr<std::shared_ptr<void>> AllocateShared(size_t size_bytes) override {
    void* memory = nullptr;
    if (posix_memalign(&memory, 4096, size_bytes) != 0) return OutOfMemory(size_bytes);
    std::memset(memory, 0xff, std::min(size_bytes, kLarge));
    SharedAllocations::Get().Add(memory, size_bytes);
    return std::shared_ptr<void>(memory, [](void* shared) {
      SharedAllocations::Get().Remove(shared);
      std::free(shared);
    });
  }
  absl::StatusOr<GpuMemoryHandle> HandleOf(void* shared) override {
    GpuMemoryHandle handle{};
    std::memcpy(handle.data(), &shared, sizeof(shared));
    return handle;
  }
  absl::StatusOr<OpenedMemory> OpenHandle(const GpuMemoryHandle& handle) override {
    void* memory = nullptr;
    std::memcpy(&memory, handle.data(), sizeof(memory));
    const absl::StatusOr<size_t> size = SharedAllocations::Get().SizeOf(memory);
    if (!size.ok()) return size.status();
    return OpenedMemory{.memory = memory, .size_bytes = tells_sizes_ ? *size : 0};
  }
  void CloseHandle(void*) override { SLUICE_CHECK(queue_.is_empty()); }

  void Copy(void* to, const void* from, size_t size_bytes) override {
    queue_.Enqueue([=] { std::memcpy(to, from, size_bytes); });
  }
  void FillWithZero(void* memory, size_t size_bytes) override {
    // What was mapped is zero.
    const auto known = sizes_.find(memory);
    if (size_bytes >= kLarge && known != sizes_.end()) return;
    queue_.Enqueue([=] { std::memset(memory, 0, size_bytes); });
  }

  std::unique_ptr<GpuEvent> NewEvent() override { return std::make_unique<HostEvent>(); }
  void Record(GpuEvent&) override {}
  absl::Status Wait(GpuEvent&, Deadline) override {
    SLUICE_CHECK(!queue_.is_recording());
    Drain();
    return std::exchange(failure_, absl::OkStatus());
  }
  void SetWatch(StreamWatch* watch) override { watch_ = watch; }

  absl::StatusOr<std::unique_ptr<Recording>> RecordWork(
      const std::function<absl::Status()>& enqueue) override {
    std::vector<Work> work;
    queue_.RecordTo(&work);
    absl::Status status = enqueue();
    queue_.RecordTo(nullptr);
    if (!status.ok()) return status;
    if (!can_record_) return absl::InternalError("this device records nothing");
    return std::make_unique<HostRecording>(std::move(work));
  }
  void Enqueue(Recording& recording) override {
    for (const Work& work : static_cast<HostRecording&>(recording).work) queue_.Enqueue(work);
  }

 private:
  void Drain() {
    queue_.Run();
    if (watch_ != nullptr) failure_.Update(watch_->Look());
  }

  static absl::Status OutOfMemory(size_t size_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(size_bytes, " bytes"));
  }

  static absl::StatusOr<void*> Take(size_t size) {
    void* memory = nullptr;
    if (posix_memalign(&memory, 256, size) != 0) return OutOfMemory(size);
    std::memset(memory, 0xff, size);
    return memory;
  }
  static absl::StatusOr<void*> Map(size_t size) {
    void* const memory = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return OutOfMemory(size);
    return memory;
  }

  const bool tells_sizes_;
  const GpuProperties properties_;
  const size_t memory_bytes_;
  const bool can_record_;
  HostQueue queue_;
  StreamWatch* watch_ = nullptr;
  absl::Status failure_;
  std::map<void*, size_t> sizes_;  // of allocations
  size_t used_ = 0;                // their sum
};

}  // namespace

std::unique_ptr<Gpu> MakeHostGpu(const HostGpuOptions& options) {
  return std::make_unique<HostGpu>(options);
}

int64_t NumLaunches(Gpu& gpu) { return static_cast<HostQueue*>(gpu.stream())->num_launches(); }

}  // namespace sluice::cuda
