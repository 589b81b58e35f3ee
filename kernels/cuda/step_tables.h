// What a step was begun with, in memory of the device: which row belongs to which position, block
// tables, and for every shape of attention met so far who computes what. Each lies at the same
// place in every step, so that a recorded step finds the next one's. Driven by the backend's
// thread.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/cuda/attention_plan.h"
#include "kernels/cuda/device_memory.h"
#include "kernels/cuda/kv_pool.h"
#include "kernels/cuda/staging_ring.h"
#include "kernels/host_step.h"

namespace sluice::cuda {

// An array of the device that grows, and then lies elsewhere.
class DeviceArray {
 public:
  // Makes room for `bytes`. True where it moved.
  absl::StatusOr<bool> Reserve(size_t bytes, Gpu& gpu);
  template <class T>
  T* as() const {
    return memory_ == nullptr ? nullptr : memory_->as<T>();
  }

 private:
  std::unique_ptr<DeviceMemory> memory_;
};

// Arrays of the device that lie one behind the other and arrive by one copy. Each keeps its place
// until one of them outgrows its room; then all may lie elsewhere.
class PackedArrays {
 public:
  // Copies `arrays`, as many in every call. True where any lies elsewhere than before.
  absl::StatusOr<bool> Upload(absl::Span<const absl::Span<const std::byte>> arrays, Gpu& gpu,
                              StagingRing& staging);
  template <class T>
  T* as(size_t which) const {
    auto* const memory = memory_.as<std::byte>();
    return memory == nullptr ? nullptr : reinterpret_cast<T*>(memory + begins_[which]);
  }

 private:
  // Makes room for the arrays. Whether a place changed.
  bool MakePlaces(absl::Span<const absl::Span<const std::byte>> arrays);

  DeviceArray memory_;
  std::vector<size_t> begins_;    // by array, and the end of the last one's room
  std::vector<std::byte> bytes_;  // kept for its memory
};

// The plan of a step for one shape of attention, on the device.
struct DeviceAttentionPlan {
  AttentionShape shape;
  AttentionRoom room;
  int64_t partial_floats = 0;  // of one partial
  // kCounts: int32, the number of decode tiles, prefill tiles and merges.
  enum Table : size_t { kCounts, kDecodeTiles, kPrefillTiles, kMergeTiles, kNumTables };
  PackedArrays tables;
  DeviceArray partials;
  // Which of the three there are any of: what is launched for the step.
  unsigned parts = 0;
  static constexpr unsigned kDecode = 1, kPrefill = 2, kMerges = 4, kAllParts = 7;

  const int32_t* num_decode() const { return tables.as<int32_t>(kCounts); }
  const int32_t* num_prefill() const { return tables.as<int32_t>(kCounts) + 1; }
  const int32_t* num_merges() const { return tables.as<int32_t>(kCounts) + 2; }
  const AttentionTile* decode() const { return tables.as<AttentionTile>(kDecodeTiles); }
  const AttentionTile* prefill() const { return tables.as<AttentionTile>(kPrefillTiles); }
  const MergeTile* merges() const { return tables.as<MergeTile>(kMergeTiles); }
};

class StepTables {
 public:
  StepTables(Gpu& gpu, StagingRing& staging) : gpu_(gpu), staging_(staging) {}

  // As at first: no memory, and no shape of attention met. The next call is Begin().
  void Clear();

  // True where an array of the device moved, so that recorded steps are void.
  absl::StatusOr<bool> Begin(absl::Span<const AttentionSegment> segments, int64_t rows);

  // The step's plan for `shape`, and from now on every step's. Sets `moved` where an array of the
  // device moved. `partial_floats`: of a split's result for one packed row and KV head.
  absl::StatusOr<const DeviceAttentionPlan*> PlanFor(const AttentionShape& shape,
                                                     const AttentionRoom& room,
                                                     int64_t partial_floats, bool& moved);

  // Which parts all plans known have: what a recorded step depends on besides its rows. Those of
  // shapes beyond the first 20, of which no model has that many, are all launched.
  uint64_t parts() const;

  const HostStep& host() const { return host_; }
  int64_t num_rows() const { return num_rows_; }
  const RowPlace* rows() const { return tables_.as<RowPlace>(kRows); }
  const int32_t* tables() const { return tables_.as<int32_t>(kBlocks); }

 private:
  enum Table : size_t { kRows, kBlocks, kNumTables };

  // `index`: of the plan among plans_.
  absl::StatusOr<bool> UploadPlan(size_t index, DeviceAttentionPlan& plan);

  Gpu& gpu_;
  StagingRing& staging_;
  HostStep host_;
  int64_t num_rows_ = 0;
  PackedArrays tables_;
  std::vector<std::unique_ptr<DeviceAttentionPlan>> plans_;
  // Kept for their memory.
  std::vector<RowPlace> row_places_;
  std::vector<int32_t> blocks_;
  AttentionPlan plan_;
};

}  // namespace sluice::cuda
