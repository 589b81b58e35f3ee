// Memory that processes of one host map, without a name in any folder: it ends with the processes
// that have it, however they end. Sealed at its size: nobody can shorten it under the other's feet.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "kernels/communicator/file_descriptor.h"

namespace sluice {

// One kind of such memory, as it is looked for and spoken of.
struct SealedMemoryKind {
  std::string name;  // of the file, up to 200 letters; ends with what tells layouts apart
  std::string noun;  // "lane", for messages
};

// An open file of it. Movable.
class SealedMemory {
 public:
  SealedMemory() = default;
  SealedMemory(SealedMemory&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), size_(std::exchange(other.size_, 0)) {}
  SealedMemory& operator=(SealedMemory&& other) noexcept {
    std::swap(fd_, other.fd_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~SealedMemory();

  // Zeroes; pages are taken as they are written. UNAVAILABLE where the system has none of it.
  static absl::StatusOr<SealedMemory> Create(const SealedMemoryKind& kind, size_t size_bytes);

  // File `fd` of process `pid`, a peer's word. NOT_FOUND where it can't be reached from this process;
  // INVALID_ARGUMENT where it is not of this kind.
  static absl::StatusOr<SealedMemory> Open(const SealedMemoryKind& kind, int64_t pid, int fd);

  // A file that a peer handed over. INVALID_ARGUMENT where its size may change.
  static absl::StatusOr<SealedMemory> Adopt(const SealedMemoryKind& kind, FileDescriptor file);

  int fd() const { return fd_; }
  size_t size_bytes() const { return size_; }
  // Of the file while this lives, for messages.
  static std::string PathOf(int64_t pid, int fd);

 private:
  SealedMemory(int fd, size_t size) : fd_(fd), size_(size) {}

  int fd_ = -1;
  size_t size_ = 0;
};

}  // namespace sluice
