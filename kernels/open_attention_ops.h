// Attention of encoders, whose rows see later positions of their text, too. A part of a backend that
// not every kind of device has: kernels/backend.h says what all operations have in common.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/ops.h"

namespace sluice {

class OpenAttentionOps {
 public:
  virtual ~OpenAttentionOps() = default;

  // As Ops::PagedAttention, but that a row sees besides the `ahead` positions after its own, as far as
  // its segment has them; these are stored before, too. With `ahead` 0 it has the bits of
  // PagedAttention. A row's result depends on the positions it sees alone, so on its whole text where
  // nothing limits these: the text's positions are one segment then. ahead >= 0; by head, not latent.
  virtual void OpenAttention(MatrixView q, const KvPool& pool, int layer,
                             const AttentionOptions& options, int64_t ahead, MatrixView out) = 0;
};

// The last position that the row at `position` sees, of a segment that ends with position `last`.
// REQUIRES: position <= last.
constexpr int64_t LastSeenPosition(int64_t position, int64_t ahead, int64_t last) {
  return position + std::min(ahead, last - position);
}

}  // namespace sluice
