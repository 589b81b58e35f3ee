// How a step of an encoder-decoder is computed: first the rows of sources, then those of texts that
// attend to them. Plain values, made by pure functions.
//
// A sequence's first positions are those of its source, filled up to whole blocks; what is written begins
// with the block after these. So one block table holds both: the source's blocks, whose keys and values
// every layer of the text makes once of what the source's layers left, and those of the text.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/cross_attention_ops.h"
#include "services/model/model_config.h"
#include "services/shard/step_check.h"

namespace sluice {

// Blocks of a source. REQUIRES: block_size divides SourceSpec::kUnit.
constexpr int64_t SourceBlocks(int64_t source_positions, int block_size) {
  return SourceSpec::Filled(source_positions) / block_size;
}

// Some rows of a step, one after another; positions count from those of the source or of the text.
struct TextPass {
  std::vector<int32_t> rows;  // of the step
  std::vector<AttentionSegment> segments;
  std::vector<SourceSegment> sources;  // of texts, one for each of `segments`

  void Clear();
};

struct TextPasses {
  TextPass source;
  TextPass text;
  // Where each row of the step is, counted over the rows of both passes; 0 for those that fill a block,
  // which nothing computes.
  std::vector<int32_t> places;

  // Whether the step is one of texts alone, so that its rows are those of the pass.
  bool is_text_alone() const { return source.rows.empty() && text.rows.size() == places.size(); }
};

// Replaces the passes; borrows the tables. REQUIRES: CheckTexts.
void PlanTextPasses(absl::Span<const ShardSegment> segments, int block_size, TextPasses* passes);

// INVALID_ARGUMENT naming the segment where it has no source, or one that is longer than
// `max_positions` or cut.
absl::Status CheckTexts(absl::Span<const ShardSegment> segments, int64_t max_positions,
                        int block_size);

}  // namespace sluice
