#include "services/shard/rotations.h"

#include <algorithm>
#include <numeric>

namespace sluice {
namespace {

// Positions whose angles are kept; those behind are computed when a step has them.
constexpr int64_t kMostRotations = 32768;
// Positions whose angles are computed before they are copied to the backend.
constexpr int64_t kRotationsAtATime = 1024;

absl::Span<const std::byte> BytesOfRows(const std::vector<float>& values, size_t count) {
  return {reinterpret_cast<const std::byte*>(values.data()), count * sizeof(float)};
}

}  // namespace

absl::StatusOr<Rotations> Rotations::Load(const RopeConfig& config, const StepLimits& limits,
                                          Backend& backend) {
  Rotations rotations(config, limits, backend);
  const int64_t kept = std::min<int64_t>(limits.max_positions, kMostRotations);
  const int64_t step_rows = backend.BucketRows(limits.max_rows);
  const size_t row_bytes = rotations.table_.pairs() * sizeof(float);
  auto memory = backend.Allocate(2 * (kept + step_rows) * row_bytes);
  if (!memory.ok()) return memory.status();
  rotations.memory_ = *std::move(memory);
  rotations.first_ = rotations.TablesAt(0, kept, RopeTables::Index::kPosition);
  rotations.step_ = rotations.TablesAt(2 * kept * row_bytes, step_rows, RopeTables::Index::kRow);
  rotations.ComputeFirst();
  return rotations;
}

Rotations::Rotations(const RopeConfig& config, const StepLimits& limits, Backend& backend)
    : backend_(&backend),
      table_(config),
      layout_(config.interleaved ? RopeLayout::kInterleaved : RopeLayout::kHalfSplit),
      cos_(std::max(limits.max_rows, kRotationsAtATime) * table_.pairs()),
      sin_(cos_.size()) {}

RopeTables Rotations::TablesAt(size_t offset, int64_t rows, RopeTables::Index index) const {
  const int64_t pairs = table_.pairs();
  auto* const first = static_cast<std::byte*>(memory_->data()) + offset;
  return {.cos = {first, DType::kF32, rows, pairs, pairs},
          .sin = {first + rows * pairs * sizeof(float), DType::kF32, rows, pairs, pairs},
          .index = index};
}

void Rotations::CopyIn(const RopeTables& tables, int64_t first_row, int64_t rows) {
  const size_t count = rows * table_.pairs();
  backend_->CopyIn(BytesOfRows(cos_, count), tables.cos.Rows(first_row, rows).data);
  backend_->CopyIn(BytesOfRows(sin_, count), tables.sin.Rows(first_row, rows).data);
}

void Rotations::ComputeFirst() {
  const size_t pairs = table_.pairs();
  for (int64_t begin = 0; begin < first_.cos.rows; begin += kRotationsAtATime) {
    std::vector<int32_t> positions(std::min(kRotationsAtATime, first_.cos.rows - begin));
    std::iota(positions.begin(), positions.end(), static_cast<int32_t>(begin));
    const size_t count = positions.size() * pairs;
    table_.Fill(positions, /*length=*/1, absl::MakeSpan(cos_).first(count),
                absl::MakeSpan(sin_).first(count));
    CopyIn(first_, begin, static_cast<int64_t>(positions.size()));
  }
}

bool Rotations::HasAnglesOf(absl::Span<const ShardSegment> segments) const {
  return std::all_of(segments.begin(), segments.end(), [&](const ShardSegment& segment) {
    return !table_.TurnsByLength(segment.length()) &&
           segment.first_position + segment.num_positions <= first_.cos.rows;
  });
}

RopeTables Rotations::ForStep(absl::Span<const ShardSegment> segments,
                              absl::Span<const int32_t> positions) {
  const size_t pairs = table_.pairs();
  size_t row = 0;
  for (const ShardSegment& segment : segments) {
    const size_t count = segment.num_positions;
    table_.Fill(positions.subspan(row, count), segment.length(),
                absl::MakeSpan(cos_).subspan(row * pairs, count * pairs),
                absl::MakeSpan(sin_).subspan(row * pairs, count * pairs));
    row += count;
  }
  CopyIn(step_, 0, static_cast<int64_t>(row));
  RopeTables tables = step_;
  tables.cos.rows = tables.sin.rows = backend_->BucketRows(static_cast<int64_t>(row));
  return tables;
}

}  // namespace sluice
