// A sequence whose keys and values lie in a paged pool, for tests of attention.
#pragma once

#include <cstdint>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "kernels/backend.h"
#include "kernels/check.h"
#include "tests/kernels/testing/primitives.h"
#include "tests/kernels/testing/tensors.h"

namespace sluice::testing {

inline std::unique_ptr<KvPool> NewKvPool(Backend& backend, const KvPoolSpec& spec) {
  absl::StatusOr<std::unique_ptr<KvPool>> pool = backend.NewKvPool(spec);
  SLUICE_CHECK(pool.ok());
  return *std::move(pool);
}

// Rows of queries, keys and values [T, heads * head_dim] of positions 0 to T - 1.
struct Sequence {
  HostMatrix q, k, v;
  std::vector<int32_t> block_table;

  // The segment of `num_rows` positions from `first` on, whose rows begin at `first_row`.
  AttentionSegment Segment(int64_t first, int64_t num_rows, int64_t first_row = 0) const {
    return {.first_row = first_row,
            .num_rows = num_rows,
            .first_position = first,
            .block_table = block_table};
  }
};

// Blocks 0, 1, ... in order, enough for `length` positions.
inline std::vector<int32_t> BlocksInOrder(int64_t length, int block_size) {
  std::vector<int32_t> blocks((length + block_size - 1) / block_size);
  std::iota(blocks.begin(), blocks.end(), 0);
  return blocks;
}

// Stores positions [first, first + count) of a sequence and attends from them: one step in which
// the sequence is alone.
inline HostMatrix AttendChunk(Backend& backend, KvPool& pool, int layer, const Sequence& sequence,
                              int64_t first, int64_t count, const AttentionOptions& options,
                              int64_t padding = 0) {
  DeviceMatrix q(backend, sequence.q.Rows(first, count), padding);
  DeviceMatrix k(backend, sequence.k.Rows(first, count), padding);
  DeviceMatrix v(backend, sequence.v.Rows(first, count), padding);
  DeviceMatrix out(backend, count, sequence.q.cols, padding);
  const AttentionSegment segment = sequence.Segment(first, count);
  backend.BeginStep({&segment, 1}, count);
  StoreKv(backend, k.view(), v.view(), layer, pool);
  backend.PagedAttention(q.view(), pool, layer, options, out.view());
  return out.Read();
}

}  // namespace sluice::testing
