#include "services/model/mapped_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "services/model/regular_file.h"

namespace sluice {

absl::StatusOr<MappedFile> MappedFile::Open(const std::string& path) {
  const absl::StatusOr<RegularFile> file = RegularFile::Open(path);
  if (!file.ok()) return file.status();
  const size_t size = file->size_bytes();
  if (size == 0) return MappedFile(path, {});
  void* start = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file->fd(), 0);
  if (start == MAP_FAILED) return absl::ErrnoToStatus(errno, path);
  return MappedFile(path, absl::MakeConstSpan(static_cast<const std::byte*>(start), size));
}

MappedFile::MappedFile(std::string path, absl::Span<const std::byte> bytes)
    : path_(std::move(path)), bytes_(bytes) {}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void MappedFile::Release(absl::Span<const std::byte> bytes) const {
  const uintptr_t page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t begin = reinterpret_cast<uintptr_t>(bytes.data()) / page * page;
  const uintptr_t end = reinterpret_cast<uintptr_t>(bytes.data() + bytes.size()) / page * page;
  // Advice alone: where the system declines, the pages merely stay resident.
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace sluice
