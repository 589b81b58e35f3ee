// What Device::BeginStep was told, kept by backends that work on the host. Used by one thread at a
// time; concurrent reads are fine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "kernels/backend.h"

namespace sluice {

class HostStep {
 public:
  // Sets memory aside, so that Begin() allocates nothing for steps of so many rows, whose block
  // tables have so many entries together.
  void Reserve(int64_t rows, int64_t blocks);

  // Copies what the segments say, their block tables too.
  void Begin(absl::Span<const AttentionSegment> segments, int64_t rows);

  absl::Span<const AttentionSegment> segments() const { return segments_; }
  // The row of `tables` that turns row `row` of the step.
  int64_t RopeRow(const RopeTables& tables, int64_t row) const {
    return tables.index == RopeTables::Index::kRow ? row : positions_[row];
  }
  // Checks that every row of x [T, ...] has one in the tables.
  void CheckRope(MatrixView x, int head_dim, const RopeTables& tables) const;

 private:
  std::vector<AttentionSegment> segments_;  // whose tables are in blocks_
  std::vector<int32_t> blocks_;
  std::vector<int32_t> positions_;  // by row
  int64_t last_position_ = 0;
};

}  // namespace sluice
