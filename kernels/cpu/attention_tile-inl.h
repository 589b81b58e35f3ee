// The products of attention: a bundle's queries with the keys of a run of blocks, and its weights
// with their values, in tiles of sums that stay in registers. Included once per SIMD target
// (hwy/foreach_target.h), always after hwy/highway.h.
//
// However many queries and blocks are taken together, a query's own chain of operations is the one
// that kernels/cpu/attention.h fixes.
#if defined(SLUICE_KERNELS_CPU_ATTENTION_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_KERNELS_CPU_ATTENTION_TILE_INL_H_
#undef SLUICE_KERNELS_CPU_ATTENTION_TILE_INL_H_
#else
#define SLUICE_KERNELS_CPU_ATTENTION_TILE_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "hwy/highway.h"
#include "kernels/cpu/attention_bundle.h"
#include "kernels/cpu/simd-inl.h"
#include "kernels/dtype.h"

HWY_BEFORE_NAMESPACE();
namespace sluice {
namespace HWY_NAMESPACE {

// One head's part of a few blocks in a row. Pointers of blocks that no query sees repeat those of
// a neighbour.
template <class T>
struct BlockRun {
  int64_t count;  // up to the last that a query sees
  const T* keys[kBlocksPerRun];
  const T* values[kBlocksPerRun];
  // FP8: of each position, from CpuKvPool::Scales; unspecified otherwise.
  const uint16_t* key_scales[kBlocksPerRun];
  const uint16_t* value_scales[kBlocksPerRun];
};

// A run, and the one that follows, which is fetched ahead: blocks lie far apart, so the processor
// does not foresee them.
template <class T>
struct BlockRuns {
  BlockRun<T> now;
  BlockRun<T> next;
};

// Whether elements are codes of FP8. The scale of a key goes to its score, that of a value to the
// value: with a power of two neither rounds, so that sums are those of BF16 numbers.
template <class T>
inline constexpr bool kIsFp8 = sizeof(T) == 1;

// Into the second-level cache: the first has no room for a run beside the one in hand.
HWY_INLINE void FetchForNextRun(const void* line) {
  __builtin_prefetch(line, /*rw=*/0, /*locality=*/2);
}

// How many vectors to take together with kQueries queries, so that all sums have a register beside
// the vectors and one query's element, and additions that wait for each other are some way apart.
template <int kQueries>
constexpr int VectorsBeside() {
  constexpr bool kHas32Registers = HWY_TARGET <= HWY_AVX3 || HWY_TARGET == HWY_NEON;
  constexpr int kRegisters = kHas32Registers ? 32 : 16;
  constexpr auto fits = [](int vectors) { return (kQueries + 1) * vectors + 1 <= kRegisters; };
  return fits(4) ? 4 : fits(2) ? 2 : 1;
}

// Calls f(number) with the number of a bundle's queries as a constant.
template <int kMost = kBundle, class F>
void WithSize(int64_t size, const F& f) {
  if (size == kMost) return f(std::integral_constant<int, kMost>());
  if constexpr (kMost > 1) WithSize<kMost - 1>(size, f);
}

// The scores scale * (q_i . key) of a bundle of kQueries with kBlocks blocks from `block` on, of at
// least the positions seen, counted from the first of each block.
template <int kQueries, int kBlocks, class T>
void ScoreBlocks(const Bundle& bundle, const BlockRuns<T>& runs, int64_t block, Seen seen,
                 float scale) {
  const FloatTag d;
  using V = hn::Vec<FloatTag>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t position = seen.begin / lanes * lanes; position < seen.end; position += lanes) {
    V sums[kQueries][kBlocks];
#pragma GCC unroll 12
    for (int i = 0; i < kQueries; ++i) {
#pragma GCC unroll 4
      for (int b = 0; b < kBlocks; ++b) sums[i][b] = hn::Zero(d);
    }
    const float* q = bundle.q;
    for (int64_t e = 0; e < bundle.head_dim; ++e, q += kQueries) {
      const int64_t at = e * bundle.block_size + position;
      V keys[kBlocks];
#pragma GCC unroll 4
      for (int b = 0; b < kBlocks; ++b) {
        FetchForNextRun(runs.next.keys[block + b] + at);
        keys[b] = LoadWide(d, runs.now.keys[block + b] + at);
      }
#pragma GCC unroll 12
      for (int i = 0; i < kQueries; ++i) {
        const V query = hn::Set(d, q[i]);
#pragma GCC unroll 4
        for (int b = 0; b < kBlocks; ++b) sums[i][b] = hn::MulAdd(query, keys[b], sums[i][b]);
      }
    }
    const int64_t chunk = block * bundle.ChunksOfBlock() + position / kChunk;
#pragma GCC unroll 12
    for (int i = 0; i < kQueries; ++i) {
#pragma GCC unroll 4
      for (int b = 0; b < kBlocks; ++b) {
        float* const to = bundle.Weights(i, chunk + b * bundle.ChunksOfBlock());
        if constexpr (kIsFp8<T>) {
          sums[i][b] = hn::Mul(sums[i][b], LoadWide(d, runs.now.key_scales[block + b] + position));
        }
        hn::Store(hn::Mul(sums[i][b], hn::Set(d, scale)), d, to + position % kChunk);
      }
    }
  }
}

// The scores of a run, of at least the positions that any query sees.
template <int kQueries, class T>
void Score(const Bundle& bundle, const BlockRuns<T>& runs, Seen any, float scale) {
  constexpr int kBlocks = VectorsBeside<kQueries>();
  for (int64_t block = 0; block < runs.now.count; block += kBlocks) {
    Seen seen{bundle.block_size, 0};
    for (int64_t b = block; b < std::min(block + kBlocks, runs.now.count); ++b) {
      const Seen of_block = any.Within(b * bundle.block_size, bundle.block_size);
      if (of_block.empty()) continue;
      seen = {std::min(seen.begin, of_block.begin), std::max(seen.end, of_block.end)};
    }
    ScoreBlocks<kQueries, kBlocks>(bundle, runs, block, seen, scale);
  }
}

// Adds the weighted values of the positions `seen` of a run to the sums of kQueries queries from
// `first` on, which are rescaled before, for kVectors vectors of elements from `e` on.
template <int kQueries, int kVectors, class T>
void AddColumns(const Bundle& bundle, int64_t first, const BlockRuns<T>& runs, Seen seen,
                int64_t e) {
  const FloatTag d;
  using V = hn::Vec<FloatTag>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  float* to = bundle.state.sums + first * bundle.values + e;
  V sums[kQueries][kVectors];
#pragma GCC unroll 12
  for (int i = 0; i < kQueries; ++i) {
    const V rescale = hn::Set(d, bundle.rescale[first + i]);
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      sums[i][v] = hn::Mul(hn::Load(d, to + i * bundle.values + v * lanes), rescale);
    }
  }
  for (int64_t block = 0; block < runs.now.count; ++block) {
    const Seen of_block = seen.Within(block * bundle.block_size, bundle.block_size);
    for (int64_t j = of_block.begin; j < of_block.end; ++j) {
      const int64_t chunk = block * bundle.ChunksOfBlock() + j / kChunk;
      const float* weights = bundle.Weights(first, chunk) + j % kChunk;
      const int64_t at = j * bundle.head_dim + e;
      V values[kVectors];
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        FetchForNextRun(runs.next.values[block] + at + v * lanes);
        values[v] = LoadWide(d, runs.now.values[block] + at + v * lanes);
        if constexpr (kIsFp8<T>) {
          const uint16_t scale = runs.now.value_scales[block][j];
          values[v] = hn::Mul(values[v], hn::Set(d, FloatFromBFloat16(scale)));
        }
      }
#pragma GCC unroll 12
      for (int i = 0; i < kQueries; ++i) {
        const V weight = hn::Set(d, weights[i * kChunk]);
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) sums[i][v] = hn::MulAdd(weight, values[v], sums[i][v]);
      }
    }
  }
#pragma GCC unroll 12
  for (int i = 0; i < kQueries; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      hn::Store(sums[i][v], d, to + i * bundle.values + v * lanes);
    }
  }
}

// AddColumns of all elements.
template <int kQueries, class T>
void AddSeen(const Bundle& bundle, int64_t first, const BlockRuns<T>& runs, Seen seen) {
  constexpr int kVectors = VectorsBeside<kQueries>();
  const auto lanes = static_cast<int64_t>(hn::Lanes(FloatTag()));
  int64_t e = 0;
  for (; e + kVectors * lanes <= bundle.values; e += kVectors * lanes) {
    AddColumns<kQueries, kVectors>(bundle, first, runs, seen, e);
  }
  for (; e < bundle.values; e += lanes) {
    AddColumns<kQueries, 1>(bundle, first, runs, seen, e);
  }
  std::fill_n(bundle.rescale + first, kQueries, 1.0f);
}

// Adds the weighted values of a run, of which query i sees seen[i] and all queries see `all`: all
// together where all of them see, each by itself before and behind.
template <int kQueries, class T>
void AddValues(const Bundle& bundle, const BlockRuns<T>& runs, const Seen* seen, Seen all) {
  if (all.empty()) {
    for (int i = 0; i < kQueries; ++i) {
      if (!seen[i].empty()) AddSeen<1>(bundle, i, runs, seen[i]);
    }
    return;
  }
  for (int i = 0; i < kQueries; ++i) {
    if (seen[i].begin < all.begin) AddSeen<1>(bundle, i, runs, {seen[i].begin, all.begin});
  }
  AddSeen<kQueries>(bundle, 0, runs, all);
  for (int i = 0; i < kQueries; ++i) {
    if (all.end < seen[i].end) AddSeen<1>(bundle, i, runs, {all.end, seen[i].end});
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace sluice
HWY_AFTER_NAMESPACE();

#endif  // SLUICE_KERNELS_CPU_ATTENTION_TILE_INL_H_
