// Two plans for a shard from arbitrary bytes: what passes the checks names blocks of the pool alone,
// enough of them for every position.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "services/shard/block_tables.h"
#include "services/shard/step_check.h"

namespace {

constexpr sluice::StepLimits kLimits = {
    .max_rows = 64, .max_positions = 256, .block_size = 4, .num_blocks = 16};

// False where the plan is refused.
bool Take(const sluice::v1::ShardExecute& plan, sluice::BlockTables& tables) {
  if (!tables.Update(plan).ok()) return false;
  std::vector<sluice::ShardSegment> segments;
  int64_t rows = 0;
  for (const sluice::v1::Segment& segment : plan.segments()) {
    segments.push_back({.first_position = segment.first_position(),
                        .num_positions = segment.num_positions(),
                        .block_table = tables.TableOf(segment.sequence_id()),
                        .sequence_length = segment.sequence_length()});
    rows += segment.num_positions();
  }
  if (!sluice::CheckStep(segments, rows, kLimits).ok()) return true;
  for (const sluice::ShardSegment& segment : segments) {
    for (int32_t i = 0; i < segment.num_positions; ++i) {
      const int32_t block = segment.block_table.at((segment.first_position + i) / 4);
      if (block < 0 || block >= kLimits.num_blocks) abort();
    }
  }
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const size_t half = size / 2;
  sluice::v1::ShardExecute first, second;
  if (!first.ParseFromArray(data, static_cast<int>(half))) return 0;
  if (!second.ParseFromArray(data + half, static_cast<int>(size - half))) return 0;
  sluice::BlockTables tables(kLimits.num_blocks);
  if (Take(first, tables)) Take(second, tables);
  return 0;
}
