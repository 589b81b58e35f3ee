#include "services/lane/lane_segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "kernels/check.h"

namespace sluice {
namespace {

constexpr char kName[] = "sluice-lane-1";  // the number is the layout's
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(const FileDescriptor&) = delete;
  ~FileDescriptor() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }
  int Release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

void* Map(int fd, std::size_t bytes) {
  const int kind = fd >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
  return mmap(nullptr, bytes, PROT_READ | PROT_WRITE, kind, fd, 0);
}

// -1 where the system has no such memory.
int CreateSealed(std::size_t bytes) {
  FileDescriptor fd(memfd_create(kName, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (fd.get() < 0) return -1;
  if (ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) return -1;
  if (fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0) return -1;
  return fd.Release();
}

absl::Status NotReached(const std::string& path, int error) {
  return absl::NotFoundError(absl::StrCat(
      "the lane at ", path, " can't be reached: ", absl::ErrnoToStatus(error, "").message()));
}

absl::Status NoLane(const std::string& path, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(path, " is no lane: ", why));
}

// Whatever a peer names is looked at before it is opened, which alone could do something.
absl::Status CheckName(const std::string& path) {
  char target[PATH_MAX];
  const ssize_t length = readlink(path.c_str(), target, sizeof(target));
  if (length < 0) return NotReached(path, errno);
  const absl::string_view name(target, static_cast<std::size_t>(length));
  if (!absl::StartsWith(name, absl::StrCat("/memfd:", kName))) return NoLane(path, name);
  return absl::OkStatus();
}

absl::Status CheckFile(const std::string& path, int fd, std::size_t bytes) {
  struct stat file;
  if (fstat(fd, &file) != 0) return NotReached(path, errno);
  if (file.st_size != static_cast<off_t>(bytes)) {
    return NoLane(path, absl::StrCat(file.st_size, " bytes instead of ", bytes));
  }
  if (fcntl(fd, F_GET_SEALS) != kSeals) return NoLane(path, "its size may change");
  return absl::OkStatus();
}

}  // namespace

std::unique_ptr<LaneSegment> LaneSegment::Create() {
  const std::size_t bytes = sizeof(Header) + capacity();
  FileDescriptor fd(CreateSealed(bytes));
  void* const memory = Map(fd.get(), bytes);
  SLUICE_CHECK(memory != MAP_FAILED);
  auto* const header = static_cast<Header*>(memory);
  const ssize_t filled = getrandom(&header->key, sizeof(header->key), 0);
  SLUICE_CHECK(filled == sizeof(header->key));
  return std::unique_ptr<LaneSegment>(new LaneSegment(header, fd.Release()));
}

absl::StatusOr<std::unique_ptr<LaneSegment>> LaneSegment::Open(const v1::LaneOffer& offer) {
  const std::string path = absl::StrCat("/proc/", offer.pid(), "/fd/", offer.fd());
  if (absl::Status status = CheckName(path); !status.ok()) return status;
  const FileDescriptor fd(open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (fd.get() < 0) return NotReached(path, errno);
  const std::size_t bytes = sizeof(Header) + capacity();
  if (absl::Status status = CheckFile(path, fd.get(), bytes); !status.ok()) return status;
  void* const memory = Map(fd.get(), bytes);
  if (memory == MAP_FAILED) return NotReached(path, errno);
  std::unique_ptr<LaneSegment> segment(new LaneSegment(static_cast<Header*>(memory), -1));
  if (segment->header_->key != offer.key()) return NoLane(path, "its key is another");
  return segment;
}

LaneSegment::~LaneSegment() {
  munmap(header_, sizeof(Header) + capacity());
  if (fd_ >= 0) close(fd_);
}

std::optional<v1::LaneOffer> LaneSegment::offer() const {
  if (fd_ < 0) return std::nullopt;
  v1::LaneOffer offer;
  offer.set_pid(getpid());
  offer.set_fd(fd_);
  offer.set_key(header_->key);
  return offer;
}

std::byte* LaneSegment::ring() const { return reinterpret_cast<std::byte*>(header_ + 1); }

}  // namespace sluice
