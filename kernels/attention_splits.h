// How attention cuts a context, on every kind of device: the positions of a sequence in splits of a
// length that the kind of device fixes, counted from position 0 whatever the blocks, the window or
// the chunk. A row's result over one split depends on that split alone; the results are then merged
// in ascending order. So a decode step has the bits of a prefill, and the splits of one long sequence
// can be worked on at the same time. Pure functions.
#pragma once

#include <algorithm>
#include <cstdint>

namespace sluice {

// Of CPUs, whose threads are few.
inline constexpr int64_t kAttentionSplit = 512;

// Splits [begin, end).
struct SplitRange {
  int64_t begin;
  int64_t end;

  int64_t size() const { return end - begin; }
};

// The first position that the row at `position` sees: of its window and of its own run of `chunk`
// positions; 0: it sees all.
constexpr int64_t FirstSeenPosition(int64_t position, int64_t window, int64_t chunk = 0) {
  const int64_t of_window = window == 0 ? 0 : position + 1 - window;
  return std::max<int64_t>(of_window, chunk == 0 ? 0 : position / chunk * chunk);
}

// The splits from that with position `first_seen` to that with `last`.
constexpr SplitRange SplitsFrom(int64_t first_seen, int64_t last, int64_t split = kAttentionSplit) {
  return {first_seen / split, last / split + 1};
}

// The splits of `split` positions that rows at positions [first, last] see anything of.
constexpr SplitRange SplitsOf(int64_t first, int64_t last, int64_t window,
                              int64_t split = kAttentionSplit) {
  return SplitsFrom(FirstSeenPosition(first, window), last, split);
}

}  // namespace sluice
