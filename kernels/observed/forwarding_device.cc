#include "kernels/observed/forwarding_device.h"

#include <algorithm>

#include "kernels/observed/forwarding_parts.h"

namespace sluice {
namespace {

// Segments with tables of their own.
struct OwnedSegments {
  explicit OwnedSegments(absl::Span<const AttentionSegment> from) : segments(CopyOf(from)) {
    for (AttentionSegment& segment : segments) {
      tables.push_back(CopyOf(segment.block_table));
      segment.block_table = tables.back();
    }
  }

  std::vector<AttentionSegment> segments;
  std::vector<std::vector<int32_t>> tables;
};

}  // namespace

ForwardingDevice::ForwardingDevice(std::unique_ptr<Backend> within)
    : within_(std::move(within)),
      experts_(ForwardExperts(*this)),
      latents_(ForwardLatents(*this)),
      recurrence_(ForwardRecurrence(*this)) {}

ForwardingDevice::~ForwardingDevice() = default;

// NOLINTNEXTLINE(performance-unnecessary-value-param): who queues the work keeps it
void ForwardingDevice::Enqueue(Work work) {
  if (failure_.ok()) failure_ = work();
}

absl::Status ForwardingDevice::Synchronize(Deadline deadline) {
  absl::Status status = std::exchange(failure_, absl::OkStatus());
  status.Update(within_->Synchronize(deadline));
  return status;
}

absl::Status ForwardingDevice::Await(Work work) {
  Enqueue(std::move(work));
  return Device::Synchronize();
}

std::string_view ForwardingDevice::name() const { return within_->name(); }
DType ForwardingDevice::operand_dtype() const { return within_->operand_dtype(); }
std::optional<DeviceMemory> ForwardingDevice::memory() const { return within_->memory(); }

absl::StatusOr<std::unique_ptr<Buffer>> ForwardingDevice::Allocate(size_t size_bytes) {
  return within_->Allocate(size_bytes);
}

void ForwardingDevice::CopyIn(absl::Span<const std::byte> host, void* device) {
  Forward([this, staged = CopyOf(host), device] { within_->CopyIn(staged, device); });
}

absl::Status ForwardingDevice::CopyOut(const void* device, absl::Span<std::byte> host) {
  const auto staged = Staged(host);
  absl::Status status =
      Await([=, this] { return within_->CopyOut(device, absl::MakeSpan(*staged)); });
  if (status.ok()) std::copy(staged->begin(), staged->end(), host.begin());
  return status;
}

absl::StatusOr<std::unique_ptr<PackedMatrix>> ForwardingDevice::Pack(const PackSpec& spec,
                                                                     const RowReader& read) {
  return within_->Pack(spec, read);
}

absl::StatusOr<std::unique_ptr<KvPool>> ForwardingDevice::NewKvPool(const KvPoolSpec& spec) {
  return within_->NewKvPool(spec);
}

void ForwardingDevice::ReserveForGemm(const PackedMatrix& weights, int64_t max_rows) {
  within_->ReserveForGemm(weights, max_rows);
}

void ForwardingDevice::ReserveForAttention(const KvPool& pool, int64_t max_rows) {
  within_->ReserveForAttention(pool, max_rows);
}

absl::StatusOr<std::unique_ptr<RankGroup>> ForwardingDevice::NewRankGroup(
    const RankGroupSpec& spec) {
  return within_->NewRankGroup(spec);
}

int64_t ForwardingDevice::BucketRows(int64_t rows) const { return within_->BucketRows(rows); }

void ForwardingDevice::BeginStep(absl::Span<const AttentionSegment> segments, int64_t rows) {
  Forward([this, owned = std::make_shared<OwnedSegments>(segments), rows] {
    within_->BeginStep(owned->segments, rows);
  });
}

absl::Status ForwardingDevice::RunStep(const StepKey& key,
                                       absl::FunctionRef<absl::Status()> enqueue) {
  return within_->RunStep(key, enqueue);
}

}  // namespace sluice
