// A few queries of attention whose sums are kept in registers at a time. Included once per SIMD
// target (hwy/foreach_target.h), always after hwy/highway.h.
//
// However many queries and blocks are taken together, a query's own chain of operations is the one
// that kernels/cpu/attention.h fixes.
#if defined(SLUICE_KERNELS_CPU_ATTENTION_BUNDLE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_KERNELS_CPU_ATTENTION_BUNDLE_INL_H_
#undef SLUICE_KERNELS_CPU_ATTENTION_BUNDLE_INL_H_
#else
#define SLUICE_KERNELS_CPU_ATTENTION_BUNDLE_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "hwy/highway.h"
#include "kernels/cpu/attention_task.h"
#include "kernels/cpu/kv_pool.h"
#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice {
namespace HWY_NAMESPACE {

// What a bundle knows of a split, or of several merged ones.
struct BundleState {
  float* maximum;  // [size]: the largest score; minus infinity before the first
  float* total;    // [size]: the sum of exponentials, relative to the maximum
  float* sums;     // [size, values]: the weighted values, relative to the maximum
};

// A bundle at work on a split, in scratch memory.
struct Bundle {
  int64_t size;        // queries
  int64_t head_dim;    // D
  int64_t block_size;  // positions
  int64_t positions;   // elements between two blocks of `weights`
  int64_t values;      // elements between two rows of `sums`
  int64_t query_position[kBundle];
  float* q;        // [D, size]
  float* weights;  // [size, kBlocksPerRun, positions], of the current run of blocks
  BundleState state;

  float* Weights(int64_t query, int64_t block) const {
    return weights + (query * kBlocksPerRun + block) * positions;
  }
};

// One head's part of a few blocks in a row. Pointers of blocks that no query sees repeat those of
// a neighbour.
template <class T>
struct BlockRun {
  int64_t count;  // up to the last that a query sees
  const T* keys[kBlocksPerRun];
  const T* values[kBlocksPerRun];
};

// A run, and the one that follows, which is fetched ahead: blocks lie far apart, so the processor
// does not foresee them.
template <class T>
struct BlockRuns {
  BlockRun<T> now;
  BlockRun<T> next;
};

// Into the second-level cache: the first has no room for a run beside the one in hand.
HWY_INLINE void FetchForNextRun(const void* line) {
  __builtin_prefetch(line, /*rw=*/0, /*locality=*/2);
}

// The positions [begin, end) of a block, counted from its first, that a query sees.
struct Seen {
  int64_t begin;
  int64_t end;

  bool empty() const { return begin >= end; }
};

// How many vectors to take together with kQueries queries, so that additions that wait for each
// other are some way apart and all sums have a register.
template <int kQueries>
constexpr int VectorsBeside() {
  constexpr bool kHas32Registers = HWY_TARGET <= HWY_AVX3 || HWY_TARGET == HWY_NEON;
  constexpr int kSums = kHas32Registers ? 16 : 8;
  return kQueries * 4 <= kSums ? 4 : kQueries * 2 <= kSums ? 2 : 1;
}

// The scores scale * (q_i . key) of a bundle of kQueries with kBlocks blocks from `block` on, of at
// least the positions seen.
template <int kQueries, int kBlocks, class T>
void Scores(const Bundle& bundle, const BlockRuns<T>& runs, int64_t block, Seen seen, float scale) {
  const FloatTag d;
  using V = hn::Vec<FloatTag>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t position = seen.begin / lanes * lanes; position < seen.end; position += lanes) {
    V sums[kQueries][kBlocks];
#pragma GCC unroll 8
    for (int i = 0; i < kQueries; ++i) {
#pragma GCC unroll 8
      for (int b = 0; b < kBlocks; ++b) sums[i][b] = hn::Zero(d);
    }
    const float* q = bundle.q;
    for (int64_t e = 0; e < bundle.head_dim; ++e, q += kQueries) {
      const int64_t at = e * bundle.block_size + position;
      V keys[kBlocks];
#pragma GCC unroll 8
      for (int b = 0; b < kBlocks; ++b) {
        FetchForNextRun(runs.next.keys[block + b] + at);
        keys[b] = LoadWide(d, runs.now.keys[block + b] + at);
      }
#pragma GCC unroll 8
      for (int i = 0; i < kQueries; ++i) {
        const V query = hn::Set(d, q[i]);
#pragma GCC unroll 8
        for (int b = 0; b < kBlocks; ++b) sums[i][b] = hn::MulAdd(query, keys[b], sums[i][b]);
      }
    }
#pragma GCC unroll 8
    for (int i = 0; i < kQueries; ++i) {
#pragma GCC unroll 8
      for (int b = 0; b < kBlocks; ++b) {
        const V score = hn::Mul(sums[i][b], hn::Set(d, scale));
        hn::Store(score, d, bundle.Weights(i, block + b) + position);
      }
    }
  }
}

// Turns the scores of query i, which sees seen[b][i] of block b, into weights, and its sums into
// those relative to the new maximum. Never part of its callers, so that it is the same for all.
inline HWY_NOINLINE void UpdateSoftmax(const Bundle& bundle, int64_t i, int64_t num_blocks,
                                       const Seen (*seen)[kBundle]) {
  const FloatTag d;
  using V = hn::Vec<FloatTag>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto padded = [](int64_t end) { return (end + kMaxFloatLanes - 1) & -kMaxFloatLanes; };
  // What lies behind the row's position or before its window is not the row's to see, nor need it
  // be a number.
  constexpr float kUnseen = -std::numeric_limits<float>::infinity();
  V largest = hn::Set(d, bundle.state.maximum[i]);
  for (int64_t b = 0; b < num_blocks; ++b) {
    const Seen of_block = seen[b][i];
    if (of_block.empty()) continue;
    float* scores = bundle.Weights(i, b);
    std::fill(scores, scores + of_block.begin, kUnseen);
    std::fill(scores + of_block.end, scores + padded(of_block.end), kUnseen);
    for (int64_t j = 0; j < padded(of_block.end); j += lanes) {
      largest = hn::Max(largest, hn::Load(d, scores + j));
    }
  }
  const float maximum = hn::GetLane(hn::MaxOfLanes(d, largest));
  if (maximum != bundle.state.maximum[i]) {
    const V rescale = Exp(d, hn::Set(d, bundle.state.maximum[i] - maximum));
    bundle.state.maximum[i] = maximum;
    bundle.state.total[i] *= hn::GetLane(rescale);
    float* sums = bundle.state.sums + i * bundle.values;
    for (int64_t e = 0; e < bundle.values; e += lanes) {
      hn::Store(hn::Mul(hn::Load(d, sums + e), rescale), d, sums + e);
    }
  }
  // Position j of a block goes to sum j % 16, so that the width of a vector does not matter.
  constexpr int kVectors = kMaxFloatLanes / hn::MaxLanes(d);
  V totals[kVectors];
  for (V& total : totals) total = hn::Zero(d);
  for (int64_t b = 0; b < num_blocks; ++b) {
    if (seen[b][i].empty()) continue;
    float* weights = bundle.Weights(i, b);
    for (int64_t j = 0; j < padded(seen[b][i].end); j += kMaxFloatLanes) {
      for (int v = 0; v < kVectors; ++v) {
        float* const at = weights + j + v * lanes;
        const V weight = Exp(d, hn::Sub(hn::Load(d, at), hn::Set(d, maximum)));
        hn::Store(weight, d, at);
        totals[v] = hn::Add(totals[v], weight);
      }
    }
  }
  bundle.state.total[i] += SumOfSixteen(totals);
}

// How the queries of a bundle are merged with those of a later split: the maxima and totals after
// it, and what the sums before it and those of the later split are multiplied with.
struct BundleMerge {
  HWY_ALIGN float maximum[kBundle];
  HWY_ALIGN float total[kBundle];
  HWY_ALIGN float before[kBundle];
  HWY_ALIGN float after[kBundle];
};

// Of all queries at once: what is computed for one of them costs a whole vector's work. What it
// says of a query that either state knows nothing of means nothing.
inline HWY_NOINLINE void PlanMerge(const BundleState& later, const BundleState& into,
                                   BundleMerge* merge) {
  const hn::CappedTag<float, kBundle> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < kBundle; i += lanes) {
    const auto a = hn::Load(d, into.maximum + i), b = hn::Load(d, later.maximum + i);
    const auto maximum = hn::IfThenElse(hn::Lt(a, b), b, a);
    const auto before = Exp(d, hn::Sub(a, maximum)), after = Exp(d, hn::Sub(b, maximum));
    hn::Store(maximum, d, merge->maximum + i);
    hn::Store(before, d, merge->before + i);
    hn::Store(after, d, merge->after + i);
    const auto of_later = hn::Mul(hn::Load(d, later.total + i), after);
    hn::Store(hn::MulAdd(hn::Load(d, into.total + i), before, of_later), d, merge->total + i);
  }
}

// Merges query i of a later split into that of the splits before it.
inline void MergeQuery(const BundleState& later, const BundleMerge& merge, int64_t i,
                       int64_t values, const BundleState& into) {
  const FloatTag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  into.maximum[i] = merge.maximum[i];
  into.total[i] = merge.total[i];
  const auto before = hn::Set(d, merge.before[i]), after = hn::Set(d, merge.after[i]);
  for (int64_t e = i * values; e < (i + 1) * values; e += lanes) {
    const auto of_later = hn::Mul(hn::Load(d, later.sums + e), after);
    hn::Store(hn::MulAdd(hn::Load(d, into.sums + e), before, of_later), d, into.sums + e);
  }
}

// Adds the weighted values of the positions [seen.begin, seen.end) of a block to the sums of
// kQueries queries, for kVectors vectors of elements from `e` on.
template <int kQueries, int kVectors, class T>
void AddColumns(const Bundle& bundle, int64_t first, const BlockRuns<T>& runs, int64_t block,
                Seen seen, int64_t e) {
  const FloatTag d;
  using V = hn::Vec<FloatTag>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const float* weights = bundle.Weights(first, block);
  const int64_t query_stride = kBlocksPerRun * bundle.positions;
  float* to = bundle.state.sums + first * bundle.values + e;
  V sums[kQueries][kVectors];
#pragma GCC unroll 8
  for (int i = 0; i < kQueries; ++i) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      sums[i][v] = hn::Load(d, to + i * bundle.values + v * lanes);
    }
  }
  for (int64_t j = seen.begin; j < seen.end; ++j) {
    const int64_t at = j * bundle.head_dim + e;
    V values[kVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      FetchForNextRun(runs.next.values[block] + at + v * lanes);
      values[v] = LoadWide(d, runs.now.values[block] + at + v * lanes);
    }
#pragma GCC unroll 8
    for (int i = 0; i < kQueries; ++i) {
      const V weight = hn::Set(d, weights[i * query_stride + j]);
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) sums[i][v] = hn::MulAdd(weight, values[v], sums[i][v]);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kQueries; ++i) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      hn::Store(sums[i][v], d, to + i * bundle.values + v * lanes);
    }
  }
}

// AddColumns of all elements.
template <int kQueries, class T>
void AddValues(const Bundle& bundle, int64_t first, const BlockRuns<T>& runs, int64_t block,
               Seen seen) {
  constexpr int kVectors = VectorsBeside<kQueries>();
  const auto lanes = static_cast<int64_t>(hn::Lanes(FloatTag()));
  int64_t e = 0;
  for (; e + kVectors * lanes <= bundle.values; e += kVectors * lanes) {
    AddColumns<kQueries, kVectors>(bundle, first, runs, block, seen, e);
  }
  for (; e < bundle.values; e += lanes) {
    AddColumns<kQueries, 1>(bundle, first, runs, block, seen, e);
  }
}

// AddValues of a bundle of kQueries, whose query i sees seen[i] of a block: all queries together
// where all of them see, each by itself before and behind.
template <int kQueries, class T>
void AddValuesSeen(const Bundle& bundle, const BlockRuns<T>& runs, int64_t block,
                   const Seen* seen) {
  Seen all = seen[0];
  for (int i = 1; i < kQueries; ++i) {
    all = {std::max(all.begin, seen[i].begin), std::min(all.end, seen[i].end)};
  }
  if (all.empty()) {
    for (int i = 0; i < kQueries; ++i) AddValues<1>(bundle, i, runs, block, seen[i]);
    return;
  }
  for (int i = 0; i < kQueries; ++i) {
    if (seen[i].begin < all.begin) {
      AddValues<1>(bundle, i, runs, block, {seen[i].begin, all.begin});
    }
  }
  AddValues<kQueries>(bundle, 0, runs, block, all);
  for (int i = 0; i < kQueries; ++i) {
    if (all.end < seen[i].end) AddValues<1>(bundle, i, runs, block, {all.end, seen[i].end});
  }
}

// Adds a run of blocks to a bundle of kQueries, whose query i sees seen[b][i] of block b.
template <int kQueries, class T>
void AddRun(const Bundle& bundle, const BlockRuns<T>& runs, float scale,
            const Seen (*seen)[kBundle]) {
  constexpr int kBlocks = VectorsBeside<kQueries>();
  for (int64_t block = 0; block < runs.now.count; block += kBlocks) {
    Seen any = {bundle.positions, 0};
    for (int64_t b = block; b < std::min(block + kBlocks, runs.now.count); ++b) {
      for (int i = 0; i < kQueries; ++i) {
        if (seen[b][i].empty()) continue;
        any = {std::min(any.begin, seen[b][i].begin), std::max(any.end, seen[b][i].end)};
      }
    }
    Scores<kQueries, kBlocks>(bundle, runs, block, any, scale);
  }
  for (int i = 0; i < kQueries; ++i) {
    const bool sees_none = std::all_of(seen, seen + runs.now.count,
                                       [i](const auto& of_block) { return of_block[i].empty(); });
    if (!sees_none) UpdateSoftmax(bundle, i, runs.now.count, seen);
  }
  for (int64_t block = 0; block < runs.now.count; ++block) {
    AddValuesSeen<kQueries>(bundle, runs, block, seen[block]);
  }
}

// AddRun of a bundle of 1 to kMost queries.
template <class T, int kMost = kBundle>
void AddRunToBundle(const Bundle& bundle, const BlockRuns<T>& runs, float scale,
                    const Seen (*seen)[kBundle]) {
  if (bundle.size == kMost) return AddRun<kMost>(bundle, runs, scale, seen);
  if constexpr (kMost > 1) AddRunToBundle<T, kMost - 1>(bundle, runs, scale, seen);
}

}  // namespace HWY_NAMESPACE
}  // namespace sluice
HWY_AFTER_NAMESPACE();

#endif  // SLUICE_KERNELS_CPU_ATTENTION_BUNDLE_INL_H_
