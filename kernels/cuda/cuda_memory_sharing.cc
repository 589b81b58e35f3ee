#include "kernels/cuda/cuda_memory_sharing.h"

#include <sys/random.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "kernels/backend.h"
#include "kernels/check.h"

namespace sluice::cuda {
namespace {

// Plain data, for processes of one build: another has other bits, and is not wired with this one.
struct Handle {
  std::array<char, 16> magic;
  HostBootId host;
  ProcessIdentity process;
  uint64_t key;
  uint64_t size_bytes;
  GpuMemoryHandle memory;
};
constexpr std::array<char, 16> kMagic = {"sluice-cuda-1"};
static_assert(sizeof(Handle) <= MemorySharing::kMostHandleBytes);

// Memory that this process has, its own or opened.
class SharedBuffer final : public Buffer {
 public:
  SharedBuffer(std::shared_ptr<void> memory, size_t size)
      : memory_(std::move(memory)), size_(size) {}
  void* data() override { return memory_.get(); }
  size_t size_bytes() const override { return size_; }

 private:
  const std::shared_ptr<void> memory_;
  const size_t size_;
};

// What this process shares, by key.
class Registry {
 public:
  static Registry& Get() {
    static auto& registry = *new Registry;
    return registry;
  }

  uint64_t Add(const std::shared_ptr<void>& memory, size_t size) {
    uint64_t key = 0;
    SLUICE_CHECK(getrandom(&key, sizeof(key), 0) == sizeof(key));
    absl::MutexLock lock(&mutex_);
    std::erase_if(entries_, [](const auto& entry) { return entry.second.memory.expired(); });
    entries_[key] = {.memory = memory, .size = size};
    return key;
  }

  absl::StatusOr<std::unique_ptr<Buffer>> Find(uint64_t key) {
    absl::MutexLock lock(&mutex_);
    const auto known = entries_.find(key);
    std::shared_ptr<void> memory = known == entries_.end() ? nullptr : known->second.memory.lock();
    if (memory == nullptr) return absl::NotFoundError("this process shares no such memory");
    return std::make_unique<SharedBuffer>(std::move(memory), known->second.size);
  }

 private:
  struct Entry {
    std::weak_ptr<void> memory;
    size_t size = 0;
  };

  absl::Mutex mutex_;
  std::map<uint64_t, Entry> entries_ ABSL_GUARDED_BY(mutex_);
};

absl::StatusOr<Handle> Parse(absl::string_view bytes) {
  Handle handle;
  if (bytes.size() != sizeof(handle)) {
    return absl::InvalidArgumentError(
        absl::StrCat("a handle of ", bytes.size(), " bytes, expected ", sizeof(handle)));
  }
  std::memcpy(&handle, bytes.data(), sizeof(handle));
  if (handle.magic != kMagic) return absl::NotFoundError("memory of another kind of device");
  return handle;
}

}  // namespace

absl::StatusOr<MemorySharing::Shared> CudaMemorySharing::AllocateShared(size_t size_bytes) {
  absl::StatusOr<std::shared_ptr<void>> memory = gpu_.AllocateShared(size_bytes);
  if (!memory.ok()) return memory.status();
  const absl::StatusOr<GpuMemoryHandle> opens = gpu_.HandleOf(memory->get());
  if (!opens.ok()) return opens.status();
  gpu_.FillWithZero(memory->get(), size_bytes);
  const Handle handle{.magic = kMagic,
                      .host = ThisHost(),
                      .process = process_,
                      .key = Registry::Get().Add(*memory, size_bytes),
                      .size_bytes = size_bytes,
                      .memory = *opens};
  return Shared{.memory = std::make_unique<SharedBuffer>(*std::move(memory), size_bytes),
                .handle = std::string(reinterpret_cast<const char*>(&handle), sizeof(handle))};
}

absl::StatusOr<std::unique_ptr<Buffer>> CudaMemorySharing::OpenShared(absl::string_view bytes) {
  const absl::StatusOr<Handle> handle = Parse(bytes);
  if (!handle.ok()) return handle.status();
  if (handle->host != ThisHost()) return absl::NotFoundError("memory of another host");
  if (IsSameProcess(handle->process, ThisProcess())) return Registry::Get().Find(handle->key);
  const absl::StatusOr<Gpu::OpenedMemory> opened = gpu_.OpenHandle(handle->memory);
  if (!opened.ok()) return opened.status();
  return std::make_unique<SharedBuffer>(
      std::shared_ptr<void>(opened->memory, [this](void* memory) { gpu_.CloseHandle(memory); }),
      opened->size_bytes != 0 ? opened->size_bytes : handle->size_bytes);
}

}  // namespace sluice::cuda
