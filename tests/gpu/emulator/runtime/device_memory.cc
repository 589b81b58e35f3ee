// The memory of Device: files that other processes can map, as they can memory of a GPU.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "absl/strings/str_cat.h"
#include "tests/gpu/emulator/runtime/device.h"

namespace sluice::cuda::emulator {
namespace {

// What is larger costs nothing until it is used.
constexpr size_t kMostPoisoned = size_t{64} << 20;

struct IpcHandle {
  int process;
  int file;
  size_t bytes;
};
static_assert(sizeof(IpcHandle) <= sizeof(cudaIpcMemHandle_t));

void* MapFile(int file, size_t bytes) {
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

}  // namespace

cudaError_t Device::Map(void** memory, size_t bytes, bool is_device) {
  const std::lock_guard lock(mutex_);
  if (lasting_error_ != cudaSuccess) return lasting_error_;
  if (bytes > kTotalBytes - allocated_) return cudaErrorMemoryAllocation;
  const int file = memfd_create("emulated-gpu", MFD_CLOEXEC);
  if (file < 0) return cudaErrorMemoryAllocation;
  *memory = ftruncate(file, static_cast<off_t>(bytes)) == 0 ? MapFile(file, bytes) : nullptr;
  if (*memory == nullptr) {
    close(file);
    return cudaErrorMemoryAllocation;
  }
  if (bytes <= kMostPoisoned) std::memset(*memory, 0xff, bytes);  // NaN in every format
  owned_[*memory] = {.bytes = bytes, .file = file, .is_device = is_device};
  if (is_device) allocated_ += bytes;
  memory_.Add(*memory, bytes);
  return cudaSuccess;
}

cudaError_t Device::Allocate(void** memory, size_t bytes) { return Map(memory, bytes, true); }
cudaError_t Device::AllocatePinned(void** memory, size_t bytes) {
  return Map(memory, bytes, false);
}

cudaError_t Device::Free(void* memory) {
  if (memory == nullptr) return cudaSuccess;
  const cudaError_t ran = RunAll();
  const std::lock_guard lock(mutex_);
  const auto owned = owned_.find(memory);
  if (owned == owned_.end()) return cudaErrorInvalidValue;
  munmap(memory, owned->second.bytes);
  if (owned->second.file >= 0) close(owned->second.file);
  if (owned->second.is_device && owned->second.file >= 0) allocated_ -= owned->second.bytes;
  memory_.Remove(memory);
  owned_.erase(owned);
  return ran;
}

cudaError_t Device::Register(void* memory, size_t bytes) {
  const std::lock_guard lock(mutex_);
  memory_.Add(memory, bytes);
  return lasting_error_;
}
cudaError_t Device::Unregister(void* memory) {
  const std::lock_guard lock(mutex_);
  memory_.Remove(memory);
  return lasting_error_;
}

size_t Device::free_bytes() {
  const std::lock_guard lock(mutex_);
  return kTotalBytes - allocated_;
}

size_t Device::SizeOf(const void* memory) {
  const std::lock_guard lock(mutex_);
  const auto found = memory_.Find(reinterpret_cast<uint64_t>(memory));
  return found.begin == reinterpret_cast<uint64_t>(memory) ? found.size_bytes : 0;
}

cudaError_t Device::HandleOf(void* memory, cudaIpcMemHandle_t* handle) {
  const std::lock_guard lock(mutex_);
  const auto owned = owned_.find(memory);
  if (owned == owned_.end() || !owned->second.is_device) return cudaErrorInvalidValue;
  const IpcHandle own{getpid(), owned->second.file, owned->second.bytes};
  std::memset(handle, 0, sizeof(*handle));
  std::memcpy(handle, &own, sizeof(own));
  return cudaSuccess;
}

// Another process's memory, through the file it is.
cudaError_t Device::OpenHandle(const cudaIpcMemHandle_t& handle, void** memory) {
  IpcHandle other;
  std::memcpy(&other, &handle, sizeof(other));
  if (other.process == getpid()) return cudaErrorDeviceUninitialized;
  const int file =
      open(absl::StrCat("/proc/", other.process, "/fd/", other.file).c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return cudaErrorMapBufferObjectFailed;
  *memory = MapFile(file, other.bytes);
  close(file);
  if (*memory == nullptr) return cudaErrorMapBufferObjectFailed;
  const std::lock_guard lock(mutex_);
  owned_[*memory] = {.bytes = other.bytes, .file = -1, .is_device = true};
  memory_.Add(*memory, other.bytes);
  return cudaSuccess;
}

}  // namespace sluice::cuda::emulator
