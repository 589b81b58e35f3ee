// The unit of work of attention.
#pragma once

#include <cstdint>

#include "kernels/backend.h"

namespace sluice {

inline constexpr int64_t kQueriesPerTask = 32;
// Queries whose sums are kept in registers at a time; a "bundle".
inline constexpr int64_t kBundle = 8;
// Blocks that are worked on at a time; a "run".
inline constexpr int64_t kBlocksPerRun = 4;

// Queries [first, first + count) of one segment and KV head. Query u is row u / group of the
// segment and head u % group of those that share the KV head. Every block is read once for all.
struct AttentionTask {
  const AttentionSegment* segment;
  int kv_head;
  int64_t first;
  int64_t count;
};

}  // namespace sluice
