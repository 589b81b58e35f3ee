#include "services/lane/lane_segment.h"

#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/check.h"

namespace sluice {
namespace {

// The number is the layout's.
const SealedMemoryKind& Kind() {
  static const auto& kind = *new SealedMemoryKind{.name = "sluice-lane-2", .noun = "lane"};
  return kind;
}

void* Map(int fd, std::size_t bytes) {
  const int kind = fd >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
  return mmap(nullptr, bytes, PROT_READ | PROT_WRITE, kind, fd, 0);
}

absl::Status NoLane(const v1::LaneOffer& offer, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat(SealedMemory::PathOf(offer.pid(), offer.fd()), " is no lane: ", why));
}

}  // namespace

std::unique_ptr<LaneSegment> LaneSegment::Create() {
  const std::size_t bytes = sizeof(Header) + capacity();
  absl::StatusOr<SealedMemory> sealed = SealedMemory::Create(Kind(), bytes);
  SealedMemory file = sealed.ok() ? *std::move(sealed) : SealedMemory();
  void* const memory = Map(file.fd(), bytes);
  SLUICE_CHECK(memory != MAP_FAILED);
  auto* const header = static_cast<Header*>(memory);
  const ssize_t filled = getrandom(&header->key, sizeof(header->key), 0);
  SLUICE_CHECK(filled == sizeof(header->key));
  return std::unique_ptr<LaneSegment>(new LaneSegment(header, std::move(file)));
}

absl::StatusOr<std::unique_ptr<LaneSegment>> LaneSegment::Open(const v1::LaneOffer& offer,
                                                               const WiringIdentity& wiring) {
  const absl::StatusOr<SealedMemory> file = SealedMemory::Open(Kind(), offer.pid(), offer.fd());
  if (!file.ok()) return file.status();
  const std::size_t bytes = sizeof(Header) + capacity();
  if (file->size_bytes() != bytes) {
    return NoLane(offer, absl::StrCat(file->size_bytes(), " bytes instead of ", bytes));
  }
  void* const memory = Map(file->fd(), bytes);
  if (memory == MAP_FAILED) {
    const int error = errno;
    return absl::ErrnoToStatus(
        error, absl::StrCat("the lane at ", SealedMemory::PathOf(offer.pid(), offer.fd()),
                            " can't be mapped"));
  }
  std::unique_ptr<LaneSegment> segment(
      new LaneSegment(static_cast<Header*>(memory), SealedMemory()));
  if (segment->header_->key != offer.key()) return NoLane(offer, "its key is another");
  if (absl::Status same = CheckSameWiring(segment->header_->wiring, wiring); !same.ok()) {
    return same;
  }
  return segment;
}

LaneSegment::~LaneSegment() { munmap(header_, sizeof(Header) + capacity()); }

std::optional<v1::LaneOffer> LaneSegment::Offer(const WiringIdentity& wiring) const {
  if (file_.fd() < 0) return std::nullopt;
  header_->wiring = wiring;
  v1::LaneOffer offer;
  offer.set_pid(getpid());
  offer.set_fd(file_.fd());
  offer.set_key(header_->key);
  return offer;
}

std::byte* LaneSegment::ring() const { return reinterpret_cast<std::byte*>(header_ + 1); }

}  // namespace sluice
