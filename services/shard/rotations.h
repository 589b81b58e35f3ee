// Cosines and sines of one of a model's rotations (RopeConfig), in memory of a backend: those of
// the first positions, which nearly all steps use, and those of a step that needs others. Not
// thread-safe; used by the thread that computes steps. Borrows the backend. Nothing is allocated
// after Load, but for angles that depend on the sequence's length.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/backend.h"
#include "services/shard/rope_table.h"
#include "services/shard/step_check.h"

namespace sluice {

class Rotations {
 public:
  // For steps within `limits`, of which positions and rows are read. RESOURCE_EXHAUSTED where the
  // backend lacks memory.
  static absl::StatusOr<Rotations> Load(const RopeConfig& config, const StepLimits& limits,
                                        Backend& backend);

  RopeLayout layout() const { return layout_; }

  // Whether every row of the step turns by angles that first_positions() has.
  bool HasAnglesOf(absl::Span<const ShardSegment> segments) const;
  // By position.
  const RopeTables& first_positions() const { return first_; }

  // By row, of a step of these segments, whose rows have these positions; valid until the next
  // call. The tables have BucketRows() of the step's rows; those beyond the step are unspecified.
  RopeTables ForStep(absl::Span<const ShardSegment> segments, absl::Span<const int32_t> positions);

  size_t size_bytes() const { return memory_->size_bytes(); }

 private:
  Rotations(const RopeConfig& config, const StepLimits& limits, Backend& backend);

  // The tables of `rows` rows at an offset of the memory.
  RopeTables TablesAt(size_t offset, int64_t rows, RopeTables::Index index) const;
  void ComputeFirst();
  void CopyIn(const RopeTables& tables, int64_t first_row, int64_t rows);

  Backend* backend_;
  RopeTable table_;
  RopeLayout layout_;
  std::unique_ptr<Buffer> memory_;
  RopeTables first_, step_;
  std::vector<float> cos_, sin_;  // rows on their way to the backend
};

}  // namespace sluice
