#include "kernels/cpu/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

constexpr size_t kFromSystem = size_t{1} << 20;
constexpr size_t kArenaArea = size_t{64} << 20;
constexpr std::align_val_t kAlignment{64};

absl::Status Refused(size_t size_bytes) {
  return absl::ResourceExhaustedError(
      absl::StrCat("the system has no ", size_bytes, " bytes of memory left"));
}

std::byte* Map(size_t size_bytes, int flags) {
  void* data =
      mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
  return data == MAP_FAILED ? nullptr : static_cast<std::byte*>(data);
}

// A map that begins where a huge page may begin.
std::byte* MapAligned(size_t size_bytes) {
  std::byte* data = Map(size_bytes + kHugePage, 0);
  if (data == nullptr) return nullptr;
  const size_t before = (kHugePage - reinterpret_cast<uintptr_t>(data) % kHugePage) % kHugePage;
  // Whole pages only: the end of the area shares its last one.
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t end = (before + size_bytes + page - 1) / page * page;
  if (before > 0) munmap(data, before);
  if (end < size_bytes + kHugePage) munmap(data + end, size_bytes + kHugePage - end);
  return data + before;
}

}  // namespace

HostMemory::HostMemory(HostMemory&& other) noexcept { *this = std::move(other); }

HostMemory& HostMemory::operator=(HostMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(is_mapped_, other.is_mapped_);
  return *this;
}

HostMemory::~HostMemory() {
  if (data_ == nullptr) return;
  if (is_mapped_) {
    munmap(data_, size_);
  } else {
    ::operator delete(data_, kAlignment);
  }
}

absl::StatusOr<HostMemory> HostMemory::Allocate(size_t size_bytes) {
  if (size_bytes < kFromSystem) {
    void* data = ::operator new(size_bytes, kAlignment, std::nothrow);
    if (data == nullptr) return Refused(size_bytes);
    std::memset(data, 0, size_bytes);
    return HostMemory(static_cast<std::byte*>(data), size_bytes, /*is_mapped=*/false);
  }
  std::byte* data = size_bytes < kHugePage ? Map(size_bytes, 0) : MapAligned(size_bytes);
  if (data == nullptr) return Refused(size_bytes);
  madvise(data, size_bytes, MADV_HUGEPAGE);  // a wish: without it the memory is merely slower
  return HostMemory(data, size_bytes, /*is_mapped=*/true);
}

absl::StatusOr<HostPart> HostArena::Take(size_t size_bytes) {
  const size_t padded = (size_bytes + 63) / 64 * 64;
  if (area_ == nullptr || area_->size_bytes() - used_ < padded) {
    absl::StatusOr<HostMemory> memory = HostMemory::Allocate(std::max(padded, kArenaArea));
    if (!memory.ok()) return memory.status();
    area_ = std::make_shared<const HostMemory>(*std::move(memory));
    used_ = 0;
  }
  HostPart part{area_, area_->data() + used_, size_bytes};
  used_ += padded;
  return part;
}

absl::StatusOr<HostMemory> HostMemory::Reserve(size_t size_bytes) {
  if (size_bytes == 0) return HostMemory();
  std::byte* data = Map(size_bytes, MAP_NORESERVE);
  if (data == nullptr) return Refused(size_bytes);
  madvise(data, size_bytes, MADV_NOHUGEPAGE);
  return HostMemory(data, size_bytes, /*is_mapped=*/true);
}

}  // namespace sluice
