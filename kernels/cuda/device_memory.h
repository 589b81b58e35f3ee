// Owned memory of a GPU. Freed on destruction, once the work that may use it is done; the Gpu must
// outlive it.
#pragma once

#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/cuda/gpu.h"

namespace sluice::cuda {

class DeviceMemory final : public Buffer {
 public:
  // What it holds is undefined.
  static absl::StatusOr<std::unique_ptr<DeviceMemory>> Allocate(size_t size_bytes, Gpu& gpu) {
    absl::StatusOr<void*> data = gpu.Allocate(size_bytes);
    if (!data.ok()) return data.status();
    return std::unique_ptr<DeviceMemory>(new DeviceMemory(*data, size_bytes, gpu));
  }
  static absl::StatusOr<std::unique_ptr<DeviceMemory>> AllocateZeroed(size_t size_bytes, Gpu& gpu) {
    auto memory = Allocate(size_bytes, gpu);
    if (memory.ok()) gpu.FillWithZero((*memory)->data(), size_bytes);
    return memory;
  }
  ~DeviceMemory() override { gpu_.Free(data_); }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  void* data() override { return data_; }
  size_t size_bytes() const override { return size_bytes_; }
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  DeviceMemory(void* data, size_t size_bytes, Gpu& gpu)
      : data_(data), size_bytes_(size_bytes), gpu_(gpu) {}

  void* const data_;
  const size_t size_bytes_;
  Gpu& gpu_;
};

}  // namespace sluice::cuda
