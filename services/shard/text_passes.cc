#include "services/shard/text_passes.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace sluice {

void TextPass::Clear() {
  rows.clear();
  segments.clear();
  sources.clear();
}

void PlanTextPasses(absl::Span<const ShardSegment> segments, int block_size, TextPasses* passes) {
  passes->source.Clear();
  passes->text.Clear();
  passes->places.clear();
  int32_t row = 0;
  for (const ShardSegment& segment : segments) {
    const int64_t blocks = SourceBlocks(segment.source_positions, block_size);
    const int64_t filled = blocks * block_size;
    const auto source_table = segment.block_table.first(static_cast<size_t>(blocks));
    if (segment.first_position == 0) {
      TextPass& pass = passes->source;
      pass.segments.push_back({.first_row = static_cast<int64_t>(pass.rows.size()),
                               .num_rows = segment.source_positions,
                               .first_position = 0,
                               .block_table = source_table});
      for (int32_t i = 0; i < segment.source_positions; ++i) pass.rows.push_back(row + i);
    }
    const int64_t first = std::max<int64_t>(segment.first_position, filled);
    const int64_t end = int64_t{segment.first_position} + segment.num_positions;
    if (first < end) {
      TextPass& pass = passes->text;
      const auto at = static_cast<int64_t>(pass.rows.size());
      pass.segments.push_back({.first_row = at,
                               .num_rows = end - first,
                               .first_position = first - filled,
                               .block_table = segment.block_table.subspan(blocks)});
      pass.sources.push_back({.first_row = at,
                              .num_rows = end - first,
                              .num_positions = segment.source_positions,
                              .block_table = source_table});
      for (int64_t position = first; position < end; ++position) {
        pass.rows.push_back(static_cast<int32_t>(row + position - segment.first_position));
      }
    }
    row += segment.num_positions;
  }
  passes->places.assign(static_cast<size_t>(row), 0);
  int32_t place = 0;
  for (const TextPass* pass : {&passes->source, &passes->text}) {
    for (const int32_t each : pass->rows) passes->places[each] = place++;
  }
}

absl::Status CheckTexts(absl::Span<const ShardSegment> segments, int64_t max_positions,
                        int block_size) {
  for (size_t i = 0; i < segments.size(); ++i) {
    const ShardSegment& segment = segments[i];
    if (segment.source_positions < 1 || segment.source_positions > max_positions) {
      return absl::InvalidArgumentError(absl::StrCat("segment ", i, " has a source of ",
                                                     segment.source_positions,
                                                     " positions; accepted: 1 to ", max_positions));
    }
    const int64_t filled = SourceBlocks(segment.source_positions, block_size) * block_size;
    const int64_t end = int64_t{segment.first_position} + segment.num_positions;
    const bool is_whole = segment.first_position == 0 && end >= filled;
    if (segment.first_position < filled && !is_whole) {
      return absl::InvalidArgumentError(
          absl::StrCat("segment ", i, " has positions ", segment.first_position, " to ", end - 1,
                       "; a source is computed in one piece, positions 0 to ", filled - 1));
    }
  }
  return absl::OkStatus();
}

}  // namespace sluice
