#include "kernels/host_step.h"

#include <algorithm>

#include "kernels/check.h"

namespace sluice {

void HostStep::Reserve(int64_t rows, int64_t blocks) {
  segments_.reserve(rows);
  positions_.reserve(rows);
  blocks_.reserve(blocks);
}

void HostStep::Begin(absl::Span<const AttentionSegment> segments, int64_t rows) {
  segments_.assign(segments.begin(), segments.end());
  positions_.assign(rows, 0);
  blocks_.clear();
  last_position_ = 0;
  for (const AttentionSegment& segment : segments) {
    SLUICE_CHECK(segment.first_row >= 0 && segment.num_rows >= 1 && segment.first_position >= 0);
    SLUICE_CHECK(segment.first_row + segment.num_rows <= rows);
    for (int64_t i = 0; i < segment.num_rows; ++i) {
      positions_[segment.first_row + i] = static_cast<int32_t>(segment.first_position + i);
    }
    last_position_ = std::max(last_position_, segment.first_position + segment.num_rows - 1);
    blocks_.insert(blocks_.end(), segment.block_table.begin(), segment.block_table.end());
  }
  // Once they lie where they stay.
  size_t first = 0;
  for (AttentionSegment& segment : segments_) {
    const size_t count = segment.block_table.size();
    segment.block_table = absl::MakeConstSpan(blocks_).subspan(first, count);
    first += count;
  }
}

void HostStep::CheckRope(MatrixView x, int head_dim, const RopeTables& tables) const {
  SLUICE_CHECK(head_dim > 0 && x.cols % head_dim == 0);
  SLUICE_CHECK(tables.cos.rows == tables.sin.rows && tables.cos.cols == tables.sin.cols);
  SLUICE_CHECK(2 * tables.cos.cols <= head_dim);
  if (tables.index == RopeTables::Index::kRow) {
    SLUICE_CHECK(x.rows <= tables.cos.rows);
  } else {
    SLUICE_CHECK(x.rows <= static_cast<int64_t>(positions_.size()));
    SLUICE_CHECK(last_position_ < tables.cos.rows);
  }
}

}  // namespace sluice
