#include "kernels/communicator/shm_segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

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

constexpr std::uint64_t kLayoutVersion = 2;

const SealedMemoryKind& Kind() {
  static const auto& kind =
      *new SealedMemoryKind{.name = "sluice-ranks-2", .noun = "group of ranks"};
  return kind;
}

absl::Status NoRoom(std::size_t bytes) {
  return absl::ResourceExhaustedError(
      absl::StrCat("no room for the ", bytes,
                   " bytes of shared memory of a group of ranks: the host's memory, or the "
                   "container's limit, is used up"));
}

}  // namespace

std::uint64_t ShmSegment::LayoutOf(ShmShape shape) {
  return kLayoutVersion << 16 |
         static_cast<std::uint64_t>(std::countr_zero(shape.slot_bytes)) << 8 |
         static_cast<std::uint64_t>(shape.size);
}

std::string ShmSegment::DescribeLayout(std::uint64_t layout) {
  return absl::StrCat("layout ", layout >> 16, ", ", layout & 0xff, " ranks with slots of ",
                      std::uint64_t{1} << (layout >> 8 & 0x3f), " bytes");
}

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

absl::StatusOr<std::shared_ptr<ShmSegment>> ShmSegment::Create(ShmShape shape,
                                                               const WiringIdentity& wiring) {
  SLUICE_CHECK(shape.size >= 1 && shape.size <= kMaxShmRanks);
  SLUICE_CHECK(std::has_single_bit(shape.slot_bytes) && shape.slot_bytes >= kCacheLine);
  const std::size_t bytes = SlotOffset(shape, shape.size);
  absl::StatusOr<SealedMemory> file = SealedMemory::Create(Kind(), bytes);
  if (!file.ok()) return file.status();
  // Takes the pages now: used-up memory is a status here instead of a SIGBUS at some later store.
  if (posix_fallocate(file->fd(), 0, static_cast<off_t>(bytes)) != 0) return NoRoom(bytes);
  absl::StatusOr<std::shared_ptr<ShmSegment>> segment =
      Map(*std::move(file), shape, /*keeps_file=*/true);
  if (!segment.ok()) return segment.status();
  (*segment)->header().wiring = wiring;
  (*segment)->header().layout = LayoutOf(shape);
  return segment;
}

absl::StatusOr<std::shared_ptr<ShmSegment>> ShmSegment::Open(FileDescriptor file, ShmShape shape,
                                                             const WiringIdentity& wiring) {
  absl::StatusOr<SealedMemory> memory = SealedMemory::Adopt(Kind(), std::move(file));
  if (!memory.ok()) return memory.status();
  if (memory->size_bytes() != SlotOffset(shape, shape.size)) {
    return absl::InvalidArgumentError(absl::StrCat("shared memory of ", memory->size_bytes(),
                                                   " bytes; expected ",
                                                   SlotOffset(shape, shape.size)));
  }
  absl::StatusOr<std::shared_ptr<ShmSegment>> segment =
      Map(*std::move(memory), shape, /*keeps_file=*/false);
  if (!segment.ok()) return segment.status();
  if (absl::Status same = CheckSameWiring((*segment)->header().wiring, wiring); !same.ok()) {
    return same;
  }
  if ((*segment)->header().layout != LayoutOf(shape)) {
    return absl::InvalidArgumentError(absl::StrCat("shared memory of ",
                                                   DescribeLayout((*segment)->header().layout),
                                                   "; expected ", DescribeLayout(LayoutOf(shape))));
  }
  return segment;
}

absl::StatusOr<std::shared_ptr<ShmSegment>> ShmSegment::Map(SealedMemory file, ShmShape shape,
                                                            bool keeps_file) {
  struct stat status;
  if (fstat(file.fd(), &status) != 0) {
    return absl::ErrnoToStatus(errno, "cannot examine the ranks' shared memory");
  }
  Registry& registry = GetRegistry();
  const std::lock_guard<std::mutex> lock(registry.mutex);
  std::erase_if(registry.segments, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<ShmSegment>& mapped = registry.segments[{status.st_dev, status.st_ino}];
  if (std::shared_ptr<ShmSegment> segment = mapped.lock()) {
    if (LayoutOf(segment->shape_) == LayoutOf(shape)) return segment;
  }
  const std::size_t bytes = file.size_bytes();
  void* const base =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file.fd(), 0);
  if (base == MAP_FAILED) {
    return absl::ErrnoToStatus(errno, "cannot map the ranks' shared memory");
  }
  std::shared_ptr<ShmSegment> segment(
      new ShmSegment(base, bytes, shape, keeps_file ? std::move(file) : SealedMemory()));
  mapped = segment;
  return segment;
}

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
