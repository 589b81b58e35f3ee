// Attention of encoder-decoders: to the whole of another text, and with a bias by distance. A part of a
// backend that not every kind of device has: kernels/backend.h says what all operations have in common.
#pragma once

#include <cstdint>

#include "absl/types/span.h"
#include "kernels/ops.h"

namespace sluice {

// What is added to scaled products, after a cap if there is one: for head h and a key that lies `offset`
// positions behind its query (or before it, where that is negative), element offset + reach of row h;
// of the nearest one where the offset is beyond -reach .. reach (Raffel et al. 2020, "T5").
struct DistanceBias {
  const float* values = nullptr;  // [Nq, 2 * reach + 1] F32 of the backend's memory
  int64_t reach = 0;              // >= 0
};

// Rows [first_row, first_row + num_rows) of the activations, which attend to a text of num_positions
// positions. Position p of it lives in slot p % block_size of block_table[p / block_size].
struct SourceSegment {
  int64_t first_row = 0;
  int64_t num_rows = 0;
  int64_t num_positions = 0;  // >= 1
  absl::Span<const int32_t> block_table;
};

class CrossAttentionOps {
 public:
  virtual ~CrossAttentionOps() = default;

  // OpenAttentionOps::OpenAttention with a bias. A row's result depends on what it sees and on how far
  // that lies from it alone.
  virtual void BiasedAttention(MatrixView q, const KvPool& pool, int layer,
                               const AttentionOptions& options, const DistanceBias& bias,
                               int64_t ahead, MatrixView out) = 0;

  // Every row attends to all positions of its source, stored before, in splits counted from the
  // source's first position and merged in order, as Ops::PagedAttention's. Rows of no segment are left
  // as they are. q [T, Nq * D] F32, out as Ops::PagedAttention has it; by head, not latent; no window
  // and no chunk.
  virtual void CrossAttention(MatrixView q, const KvPool& pool, int layer,
                              const AttentionOptions& options,
                              absl::Span<const SourceSegment> segments, MatrixView out) = 0;
};

// Of rows that see all of a source: as positions that end with its last one, each of which sees all
// before and behind it.
constexpr int64_t kWholeSource = int64_t{1} << 40;
inline AttentionSegment AsAttentionSegment(const SourceSegment& source) {
  return {.first_row = source.first_row,
          .num_rows = source.num_rows,
          .first_position = source.num_positions - source.num_rows,
          .block_table = source.block_table};
}

}  // namespace sluice
