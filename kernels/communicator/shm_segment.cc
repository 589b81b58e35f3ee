#include "kernels/communicator/shm_segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <map>
#include <mutex>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "kernels/check.h"

namespace sluice {
namespace {

// The mappings of this process by the object's identity. Threads of one process thus use the same
// addresses, which saves page tables and lets a race detector see how they synchronise.
struct Registry {
  std::mutex mutex;
  std::map<std::pair<dev_t, ino_t>, std::weak_ptr<ShmSegment>> segments ABSL_GUARDED_BY(mutex);
};

Registry& GetRegistry() {
  static Registry* const registry = new Registry;
  return *registry;
}

struct FileDescriptor {
  explicit FileDescriptor(int fd) : value(fd) {}
  FileDescriptor(const FileDescriptor&) = delete;
  ~FileDescriptor() {
    if (value >= 0) close(value);
  }
  const int value;
};

constexpr std::uint32_t kLayoutVersion = 1;

std::uint32_t EncodeShape(ShmShape shape) {
  return kLayoutVersion << 16 |
         static_cast<std::uint32_t>(std::countr_zero(shape.slot_bytes)) << 8 |
         static_cast<std::uint32_t>(shape.size);
}

std::string DescribeShape(std::uint32_t encoded) {
  return absl::StrCat("layout ", encoded >> 16, ", ", encoded & 0xff, " ranks with slots of ",
                      std::uint64_t{1} << (encoded >> 8 & 0xff), " bytes");
}

absl::Status SystemError(absl::string_view what, const std::string& name, int error) {
  return absl::ErrnoToStatus(error, absl::StrCat(what, " shared memory object '", name, "'"));
}

}  // namespace

std::size_t ShmSegment::RankOffset(ShmShape shape, int r) {
  return sizeof(Header) + sizeof(ShmRank) * static_cast<std::size_t>(r);
}

std::size_t ShmSegment::PositionOffset(ShmShape shape, int writer, int reader) {
  const std::size_t index = static_cast<std::size_t>(writer) * shape.size + reader;
  return RankOffset(shape, shape.size) + sizeof(ShmWord) * index;
}

std::size_t ShmSegment::SlotOffset(ShmShape shape, int writer) {
  return PositionOffset(shape, shape.size, 0) + std::size_t{shape.slot_bytes} * writer;
}

absl::StatusOr<std::shared_ptr<ShmSegment>> ShmSegment::Open(const std::string& name,
                                                             ShmShape shape) {
  SLUICE_CHECK(shape.size >= 1 && shape.size <= kMaxShmRanks);
  SLUICE_CHECK(std::has_single_bit(shape.slot_bytes) && shape.slot_bytes >= kCacheLine);
  const FileDescriptor fd(shm_open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, S_IRUSR | S_IWUSR));
  if (fd.value < 0) return SystemError("cannot open", name, errno);
  struct stat status;
  if (fstat(fd.value, &status) != 0) return SystemError("cannot examine", name, errno);

  Registry& registry = GetRegistry();
  const std::lock_guard<std::mutex> lock(registry.mutex);
  std::erase_if(registry.segments, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<ShmSegment>& mapped = registry.segments[{status.st_dev, status.st_ino}];
  if (std::shared_ptr<ShmSegment> segment = mapped.lock()) {
    if (EncodeShape(segment->shape_) == EncodeShape(shape)) return segment;
  }
  absl::StatusOr<std::shared_ptr<ShmSegment>> segment = Map(fd.value, name, shape);
  if (segment.ok()) mapped = *segment;
  return segment;
}

absl::StatusOr<std::shared_ptr<ShmSegment>> ShmSegment::Map(int fd, const std::string& name,
                                                            ShmShape shape) {
  const std::size_t bytes = SlotOffset(shape, shape.size);
  // Unlike ftruncate, this never shrinks what a peer made, and it takes the pages now: a full
  // /dev/shm is a status here instead of a SIGBUS at some later store.
  if (const int error = posix_fallocate(fd, 0, static_cast<off_t>(bytes)); error != 0) {
    if (error != ENOSPC) return SystemError("cannot size", name, error);
    return absl::ResourceExhaustedError(
        absl::StrCat("no room for the ", bytes, " bytes of shared memory object '", name,
                     "': the host's (or the container's) /dev/shm is full"));
  }
  void* const base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
  if (base == MAP_FAILED) return SystemError("cannot map", name, errno);
  std::shared_ptr<ShmSegment> segment(new ShmSegment(base, bytes, shape));
  if (absl::Status agreed = segment->AgreeOnShape(name); !agreed.ok()) return agreed;
  return segment;
}

absl::Status ShmSegment::AgreeOnShape(const std::string& name) const {
  const std::uint32_t mine = EncodeShape(shape_);
  if (header().shape.CompareExchange(0, mine)) return absl::OkStatus();
  const std::uint32_t theirs = header().shape.Load();
  if (theirs == mine) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the ranks of shared memory object '", name,
                                                 "' disagree: it has ", DescribeShape(theirs),
                                                 ", this rank expects ", DescribeShape(mine)));
}

void ShmSegment::Unlink(const std::string& name) { shm_unlink(name.c_str()); }

ShmSegment::~ShmSegment() { munmap(base_, bytes_); }

ShmRank& ShmSegment::rank(int r) const {
  return *reinterpret_cast<ShmRank*>(base_ + RankOffset(shape_, r));
}

ShmWord& ShmSegment::read_position(int writer, int reader) const {
  return *reinterpret_cast<ShmWord*>(base_ + PositionOffset(shape_, writer, reader));
}

std::byte* ShmSegment::slot(int writer) const { return base_ + SlotOffset(shape_, writer); }

// Of several peers with news for a sleeper, the one whose Exchange takes the word makes the system
// call. A sleeper that has woken and lies down again in between is woken once for nothing.
void ShmSegment::WakeRank(int r) const {
  if (rank(r).parked.Exchange(kAwake) != kAwake) rank(r).parked.Wake();
}

void ShmSegment::WakeReadersOf(int writer) const {
  const std::uint32_t awaits_writer = static_cast<std::uint32_t>(writer) + 1;
  for (int r = 0; r < size(); ++r) {
    const std::uint32_t parked = rank(r).parked.Load();
    if (r != writer && (parked == kAwaitsAny || parked == awaits_writer)) WakeRank(r);
  }
}

void ShmSegment::WakeWriter(int writer) const {
  if (rank(writer).parked.Load() == kAwaitsAny) WakeRank(writer);
}

void ShmSegment::WakeAll() const {
  for (int r = 0; r < size(); ++r) WakeRank(r);
}

}  // namespace sluice
