// Heads, blocks and sequences for tests of attention.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <ostream>
#include <vector>

#include "tests/kernels/testing/paged_sequence.h"
#include "tests/kernels/testing/tensors.h"

namespace sluice::testing {

struct AttentionShape {
  int block_size = 16;
  int num_kv_heads = 2;
  int group = 2;  // query heads per KV head
  int head_dim = 64;
  DType dtype = DType::kF32;

  int64_t window = 0;
  float softcap = 0;

  AttentionOptions Options() const {
    return {
        .scale = 1 / std::sqrt(static_cast<float>(head_dim)), .window = window, .softcap = softcap};
  }
  KvPoolSpec Pool(int num_blocks) const {
    return {.num_layers = 2,
            .num_blocks = num_blocks,
            .block_size = block_size,
            .num_kv_heads = num_kv_heads,
            .head_dim = head_dim,
            .dtype = dtype};
  }
};

inline std::ostream& operator<<(std::ostream& stream, const AttentionShape& shape) {
  return stream << "blocks of " << shape.block_size << ", " << shape.num_kv_heads << " KV heads of "
                << shape.head_dim << " serving " << shape.group << " each, " << Name(shape.dtype)
                << ", window " << shape.window << ", soft cap " << shape.softcap;
}

// A sequence of `length` positions in blocks drawn at random from a pool of `num_blocks`.
inline Sequence RandomSequence(Random& random, const AttentionShape& shape, int64_t length,
                               int num_blocks) {
  std::vector<int32_t> blocks =
      BlocksInOrder(int64_t{num_blocks} * shape.block_size, shape.block_size);
  std::shuffle(blocks.begin(), blocks.end(), random);
  blocks.resize((length + shape.block_size - 1) / shape.block_size);
  const int64_t kv_width = int64_t{shape.num_kv_heads} * shape.head_dim;
  return {RandomMatrix(random, length, kv_width * shape.group, 2),
          RandomMatrix(random, length, kv_width), RandomMatrix(random, length, kv_width), blocks};
}

}  // namespace sluice::testing
