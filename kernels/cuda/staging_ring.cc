#include "kernels/cuda/staging_ring.h"

#include <algorithm>
#include <cstring>

#include "kernels/backend.h"
#include "kernels/check.h"

namespace sluice::cuda {
namespace {

constexpr size_t kAlignment = 256;

}  // namespace

absl::StatusOr<std::unique_ptr<StagingRing>> StagingRing::Create(Gpu& gpu) {
  const absl::StatusOr<void*> memory = gpu.AllocatePinned(kParts * kPartBytes);
  if (!memory.ok()) return memory.status();
  return std::unique_ptr<StagingRing>(new StagingRing(gpu, static_cast<std::byte*>(*memory)));
}

StagingRing::StagingRing(Gpu& gpu, std::byte* memory) : gpu_(gpu), memory_(memory) {
  for (auto& event : events_) event = gpu.NewEvent();
}

StagingRing::~StagingRing() { gpu_.FreePinned(memory_); }

absl::StatusOr<absl::Span<std::byte>> StagingRing::Take(size_t size) {
  SLUICE_CHECK(size <= kPartBytes);
  if (used_ + size > kPartBytes) {
    gpu_.Record(*events_[part_]);
    in_use_[part_] = true;
    part_ = (part_ + 1) % kParts;
    used_ = 0;
  }
  if (in_use_[part_]) {
    absl::Status done = gpu_.Wait(*events_[part_], Deadline::After(Backend::kLongestWait));
    if (!done.ok()) return done;
    in_use_[part_] = false;
  }
  const absl::Span<std::byte> room(memory_ + part_ * kPartBytes + used_, size);
  used_ += (size + kAlignment - 1) / kAlignment * kAlignment;
  return room;
}

absl::Status StagingRing::CopyIn(absl::Span<const std::byte> bytes, void* device) {
  auto* to = static_cast<std::byte*>(device);
  while (!bytes.empty()) {
    const absl::Span<const std::byte> some = bytes.first(std::min(bytes.size(), kPartBytes));
    const absl::StatusOr<absl::Span<std::byte>> room = Take(some.size());
    if (!room.ok()) return room.status();
    std::memcpy(room->data(), some.data(), some.size());
    gpu_.Copy(to, room->data(), some.size());
    to += some.size();
    bytes.remove_prefix(some.size());
  }
  return absl::OkStatus();
}

}  // namespace sluice::cuda
