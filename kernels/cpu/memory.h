// Host memory for weights, activations and caches.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "kernels/backend.h"

namespace sluice {

inline constexpr size_t kHugePage = size_t{2} << 20;

// An owned area of zeroes, at least 64-byte aligned. Areas of a megabyte and more come straight
// from the system: they are not touched until used, lie on huge pages where the system has some and
// they are large enough, and go back to it at once on destruction. Move-only.
class HostMemory {
 public:
  HostMemory() = default;
  HostMemory(HostMemory&& other) noexcept;
  HostMemory& operator=(HostMemory&& other) noexcept;
  ~HostMemory();

  // RESOURCE_EXHAUSTED where the system refuses.
  static absl::StatusOr<HostMemory> Allocate(size_t size_bytes);
  // As Allocate(), but from the system whatever the size, and without asking it to set memory
  // aside: for areas of which only some pages are ever used. Never on huge pages, which would take
  // memory for neighbours too.
  static absl::StatusOr<HostMemory> Reserve(size_t size_bytes);

  std::byte* data() const { return data_; }
  size_t size_bytes() const { return size_; }

 private:
  HostMemory(std::byte* data, size_t size, bool is_mapped)
      : data_(data), size_(size), is_mapped_(is_mapped) {}

  std::byte* data_ = nullptr;
  size_t size_ = 0;
  bool is_mapped_ = false;
};

// A part of an area that others may share; the area lives as long as any of its parts.
struct HostPart {
  std::shared_ptr<const HostMemory> area;
  std::byte* data = nullptr;
  size_t size_bytes = 0;
};

// Cuts many long-lived parts out of large areas, so that all of them lie on huge pages: a matrix of
// a megabyte by itself is too small for one, and reading it from small pages is slower by a fifth.
// For one thread at a time.
class HostArena {
 public:
  // `size_bytes` zeroes, 64-byte aligned. RESOURCE_EXHAUSTED where the system refuses.
  absl::StatusOr<HostPart> Take(size_t size_bytes);

 private:
  std::shared_ptr<const HostMemory> area_;
  size_t used_ = 0;  // bytes of area_
};

// HostMemory as Device::Allocate() hands it out.
class HostBuffer final : public Buffer {
 public:
  explicit HostBuffer(HostMemory memory) : memory_(std::move(memory)) {}
  void* data() override { return memory_.data(); }
  size_t size_bytes() const override { return memory_.size_bytes(); }

 private:
  HostMemory memory_;
};

}  // namespace sluice
