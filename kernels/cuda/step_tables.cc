#include "kernels/cuda/step_tables.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace sluice::cuda {
namespace {

// The least room of an array in memory that it shares. Rooms are powers of two from it on, so that
// each array begins at a multiple of it, as memory that CUDA allocates does (256 bytes): more than
// the widest load of a kernel (16) or any element needs. Arrays that stay below it (32 rows, 64
// blocks) never move, for which graphs would have to be captured again.
constexpr size_t kLeastRoom = 256;

template <class T>
absl::Span<const std::byte> BytesOf(const std::vector<T>& values) {
  static_assert(kLeastRoom % alignof(T) == 0);
  return {reinterpret_cast<const std::byte*>(values.data()), values.size() * sizeof(T)};
}

constexpr size_t kMostPlansTold = 20;
constexpr int kBitsOfParts = 3;

}  // namespace

absl::StatusOr<bool> DeviceArray::Reserve(size_t bytes, Gpu& gpu) {
  if (bytes == 0 || (memory_ != nullptr && memory_->size_bytes() >= bytes)) return false;
  memory_.reset();
  auto memory = DeviceMemory::Allocate(std::bit_ceil(std::max<size_t>(bytes, 4096)), gpu);
  if (!memory.ok()) return memory.status();
  memory_ = *std::move(memory);
  return true;
}

bool PackedArrays::MakePlaces(absl::Span<const absl::Span<const std::byte>> arrays) {
  std::vector<size_t> begins = {0};
  for (size_t i = 0; i < arrays.size(); ++i) {
    const size_t room = begins_.empty() ? 0 : begins_[i + 1] - begins_[i];
    const size_t wanted = std::max(arrays[i].size(), kLeastRoom);
    begins.push_back(begins[i] + (wanted <= room ? room : std::bit_ceil(wanted)));
  }
  if (begins == begins_) return false;
  begins_ = std::move(begins);
  return true;
}

absl::StatusOr<bool> PackedArrays::Upload(absl::Span<const absl::Span<const std::byte>> arrays,
                                          Gpu& gpu, StagingRing& staging) {
  const bool has_new_places = MakePlaces(arrays);
  const absl::StatusOr<bool> moved = memory_.Reserve(begins_.back(), gpu);
  if (!moved.ok()) return moved.status();
  bytes_.clear();
  for (size_t i = 0; i < arrays.size(); ++i) {
    if (arrays[i].empty()) continue;
    bytes_.resize(begins_[i]);
    bytes_.insert(bytes_.end(), arrays[i].begin(), arrays[i].end());
  }
  if (absl::Status sent = staging.CopyIn(bytes_, memory_.as<void>()); !sent.ok()) return sent;
  return has_new_places || *moved;
}

void StepTables::Clear() {
  tables_ = {};
  plans_.clear();
}

absl::StatusOr<bool> StepTables::Begin(absl::Span<const AttentionSegment> segments, int64_t rows) {
  host_.Begin(segments, rows);
  num_rows_ = rows;
  row_places_.assign(rows, RowPlace{});
  blocks_.clear();
  for (const AttentionSegment& segment : segments) {
    for (int64_t i = 0; i < segment.num_rows; ++i) {
      row_places_[segment.first_row + i] = {static_cast<int32_t>(segment.first_position + i),
                                            static_cast<int32_t>(blocks_.size())};
    }
    blocks_.insert(blocks_.end(), segment.block_table.begin(), segment.block_table.end());
  }
  bool any_moved = false;
  const auto note = [&](const absl::StatusOr<bool>& moved) {
    any_moved |= moved.ok() && *moved;
    return moved.status();
  };
  absl::Span<const std::byte> arrays[kNumTables];
  arrays[kRows] = BytesOf(row_places_);
  arrays[kBlocks] = BytesOf(blocks_);
  absl::Status status = note(tables_.Upload(arrays, gpu_, staging_));
  for (size_t i = 0; i < plans_.size(); ++i) {
    if (status.ok()) status = note(UploadPlan(i, *plans_[i]));
  }
  if (!status.ok()) return status;
  return any_moved;
}

absl::StatusOr<const DeviceAttentionPlan*> StepTables::PlanFor(const AttentionShape& shape,
                                                               const AttentionRoom& room,
                                                               int64_t partial_floats,
                                                               bool& moved) {
  for (const auto& plan : plans_) {
    if (plan->shape == shape && plan->partial_floats == partial_floats) return plan.get();
  }
  auto plan = std::make_unique<DeviceAttentionPlan>();
  plan->shape = shape;
  plan->room = room;
  plan->partial_floats = partial_floats;
  const absl::StatusOr<bool> uploaded = UploadPlan(plans_.size(), *plan);
  if (!uploaded.ok()) return uploaded.status();
  moved |= *uploaded;
  return plans_.emplace_back(std::move(plan)).get();
}

uint64_t StepTables::parts() const {
  uint64_t parts = 0;
  for (size_t i = 0; i < std::min(plans_.size(), kMostPlansTold); ++i) {
    parts |= uint64_t{plans_[i]->parts} << (i * kBitsOfParts);
  }
  return parts;
}

absl::StatusOr<bool> StepTables::UploadPlan(size_t index, DeviceAttentionPlan& plan) {
  PlanAttention(host_.segments(), plan.shape, plan.room, plan_);
  plan.parts = (plan_.decode.empty() ? 0 : DeviceAttentionPlan::kDecode) |
               (plan_.prefill.empty() ? 0 : DeviceAttentionPlan::kPrefill) |
               (plan_.merges.empty() ? 0 : DeviceAttentionPlan::kMerges);
  if (index >= kMostPlansTold) plan.parts = DeviceAttentionPlan::kAllParts;
  const std::vector<int32_t> counts = {static_cast<int32_t>(plan_.decode.size()),
                                       static_cast<int32_t>(plan_.prefill.size()),
                                       static_cast<int32_t>(plan_.merges.size())};
  bool any_moved = false;
  absl::Status status;
  const auto note = [&](const absl::StatusOr<bool>& moved) {
    any_moved |= moved.ok() && *moved;
    status.Update(moved.status());
  };
  absl::Span<const std::byte> arrays[DeviceAttentionPlan::kNumTables];
  arrays[DeviceAttentionPlan::kCounts] = BytesOf(counts);
  arrays[DeviceAttentionPlan::kDecodeTiles] = BytesOf(plan_.decode);
  arrays[DeviceAttentionPlan::kPrefillTiles] = BytesOf(plan_.prefill);
  arrays[DeviceAttentionPlan::kMergeTiles] = BytesOf(plan_.merges);
  note(plan.tables.Upload(arrays, gpu_, staging_));
  note(plan.partials.Reserve(
      plan_.num_partials * plan.shape.num_kv_heads * plan.partial_floats * sizeof(float), gpu_));
  if (!status.ok()) return status;
  return any_moved;
}

}  // namespace sluice::cuda
