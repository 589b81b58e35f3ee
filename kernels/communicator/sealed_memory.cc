#include "kernels/communicator/sealed_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

absl::Status NotReached(const SealedMemoryKind& kind, const std::string& path, int error) {
  return absl::NotFoundError(absl::StrCat("the ", kind.noun, " at ", path, " can't be reached: ",
                                          absl::ErrnoToStatus(error, "").message()));
}

absl::Status NotOfKind(const SealedMemoryKind& kind, const std::string& path,
                       absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(path, " is no ", kind.noun, ": ", why));
}

// Whatever a peer names is looked at before it is opened, which alone could do something.
absl::Status CheckName(const SealedMemoryKind& kind, const std::string& path) {
  char target[PATH_MAX];
  const ssize_t length = readlink(path.c_str(), target, sizeof(target));
  if (length < 0) return NotReached(kind, path, errno);
  const absl::string_view name(target, static_cast<size_t>(length));
  const std::string expected = absl::StrCat("/memfd:", kind.name);
  if (name != expected && name != absl::StrCat(expected, " (deleted)")) {
    return NotOfKind(kind, path, name);
  }
  return absl::OkStatus();
}

}  // namespace

SealedMemory::~SealedMemory() {
  if (fd_ >= 0) close(fd_);
}

std::string SealedMemory::PathOf(int64_t pid, int fd) {
  return absl::StrCat("/proc/", pid, "/fd/", fd);
}

absl::StatusOr<SealedMemory> SealedMemory::Create(const SealedMemoryKind& kind, size_t size_bytes) {
  SealedMemory memory(memfd_create(kind.name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING), size_bytes);
  if (memory.fd() < 0 || ftruncate(memory.fd(), static_cast<off_t>(size_bytes)) != 0 ||
      fcntl(memory.fd(), F_ADD_SEALS, kSeals) != 0) {
    return absl::UnavailableError(absl::StrCat(
        "memory for a ", kind.noun, " can't be had: ", absl::ErrnoToStatus(errno, "").message()));
  }
  return memory;
}

absl::StatusOr<SealedMemory> SealedMemory::Open(const SealedMemoryKind& kind, int64_t pid, int fd) {
  const std::string path = PathOf(pid, fd);
  if (absl::Status status = CheckName(kind, path); !status.ok()) return status;
  SealedMemory memory(open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), 0);
  if (memory.fd() < 0) return NotReached(kind, path, errno);
  struct stat file;
  if (fstat(memory.fd(), &file) != 0) return NotReached(kind, path, errno);
  if (fcntl(memory.fd(), F_GET_SEALS) != kSeals) {
    return NotOfKind(kind, path, "its size may change");
  }
  memory.size_ = static_cast<size_t>(file.st_size);
  return memory;
}

absl::StatusOr<SealedMemory> SealedMemory::Adopt(const SealedMemoryKind& kind,
                                                 FileDescriptor file) {
  SealedMemory memory(file.Release(), 0);
  struct stat status;
  if (fstat(memory.fd(), &status) != 0 || fcntl(memory.fd(), F_GET_SEALS) != kSeals) {
    return NotOfKind(kind, "what was handed over", "its size may change");
  }
  memory.size_ = static_cast<size_t>(status.st_size);
  return memory;
}

}  // namespace sluice
