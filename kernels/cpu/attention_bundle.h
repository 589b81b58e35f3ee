// A bundle: a few queries of attention whose sums are kept in registers at a time. How queries are
// shared out among bundles, and where the work of one lies in scratch memory.
#pragma once

#include <cstdint>

namespace sluice {

// Queries of a bundle at most: 12 x 2 vectors of sums leave room for operands in 32 registers.
inline constexpr int64_t kBundle = 12;
// Blocks that are worked on at a time; a "run".
inline constexpr int64_t kBlocksPerRun = 4;
// Positions whose weights lie side by side, however long a block or a vector is; a "chunk".
inline constexpr int64_t kChunk = 16;
// What is kept per query of a bundle is padded to whole vectors.
inline constexpr int64_t kPaddedBundle = 16;

// Bundles of `queries` queries, all of one size but for the last one, which has what is left.
struct Bundles {
  explicit constexpr Bundles(int64_t queries)
      : count((queries + kBundle - 1) / kBundle), size((queries + count - 1) / count) {}

  int64_t count;
  int64_t size;
};

// What a bundle knows of a split, or of several merged ones.
struct BundleState {
  float* maximum;  // [kPaddedBundle]: the largest score; minus infinity before the first
  float* total;    // [kPaddedBundle]: the sum of exponentials, relative to the maximum
  float* sums;     // [size, values]: the weighted values, relative to the maximum
};

// A bundle at work on a split, in scratch memory, 64-byte aligned.
struct Bundle {
  int64_t size;        // queries
  int64_t head_dim;    // D: elements of a key, and of what a position of the values takes
  int64_t block_size;  // positions
  int64_t values;      // elements between two rows of `sums`
  int64_t query_position[kBundle];
  int64_t query_head[kBundle];
  float* q;        // [D, size]
  float* weights;  // [chunks of a run, kBundle, kChunk]
  // [kPaddedBundle]: what the sums have still to be multiplied with, because the maximum has risen.
  float* rescale;
  BundleState state;

  int64_t ChunksOfBlock() const { return (block_size + kChunk - 1) / kChunk; }
  // Of a query, from the first position of a chunk on.
  float* Weights(int64_t query, int64_t chunk) const {
    return weights + (chunk * kBundle + query) * kChunk;
  }
};

// Positions [begin, end), counted from the first of a run or of a block.
struct Seen {
  int64_t begin;
  int64_t end;

  bool empty() const { return begin >= end; }
  // The part that lies in [first, first + count), counted from `first`.
  Seen Within(int64_t first, int64_t count) const {
    const auto clamped = [=](int64_t position) {
      return position < first ? 0 : position > first + count ? count : position - first;
    };
    return {clamped(begin), clamped(end)};
  }
};

}  // namespace sluice
