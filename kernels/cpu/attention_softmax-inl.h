// The softmax of a bundle: scores turned into weights, and splits merged. Included once per SIMD
// target (hwy/foreach_target.h), always after hwy/highway.h.
//
// A query's own chain of operations is the one that kernels/cpu/attention.h fixes, however many are
// in its bundle: they are taken together, so that one waits for none of another's results.
#if defined(SLUICE_KERNELS_CPU_ATTENTION_SOFTMAX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_KERNELS_CPU_ATTENTION_SOFTMAX_INL_H_
#undef SLUICE_KERNELS_CPU_ATTENTION_SOFTMAX_INL_H_
#else
#define SLUICE_KERNELS_CPU_ATTENTION_SOFTMAX_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <limits>

#include "hwy/highway.h"
#include "kernels/cpu/attention_bundle.h"
#include "kernels/cpu/simd-inl.h"
#include "kernels/cross_attention_ops.h"

HWY_BEFORE_NAMESPACE();
namespace sluice {
namespace HWY_NAMESPACE {

static_assert(kChunk == kMaxFloatLanes && kPaddedBundle % kMaxFloatLanes == 0);

// What lies behind a row's position, before its window or behind a block's end is not the row's to
// see, nor need it be a number: no score of a chunk whose first position is `first` is left of it.
inline void HideUnseen(Seen seen, int64_t first, int64_t block_end, float* scores) {
  const FloatTag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto kUnseen = hn::Set(d, -std::numeric_limits<float>::infinity());
  for (int64_t i = 0; i < kChunk; i += lanes) {
    const auto lanes_before = [=](int64_t position) {
      return static_cast<size_t>(std::clamp<int64_t>(position - first - i, 0, lanes));
    };
    const auto sees = hn::AndNot(hn::FirstN(d, lanes_before(seen.begin)),
                                 hn::FirstN(d, lanes_before(std::min(seen.end, block_end))));
    hn::Store(hn::IfThenElse(sees, hn::Load(d, scores + i), kUnseen), d, scores + i);
  }
}

// HideUnseen of all scores of query i, whose run has `num_blocks` blocks.
inline HWY_NOINLINE void HideUnseenOfQuery(const Bundle& bundle, int64_t i, int64_t num_blocks,
                                           Seen seen) {
  const int64_t of_block = bundle.ChunksOfBlock();
  for (int64_t block = 0; block < num_blocks; ++block) {
    const int64_t begin = block * bundle.block_size, end = begin + bundle.block_size;
    for (int64_t c = 0; c < of_block; ++c) {
      const int64_t first = begin + c * kChunk;
      const bool is_whole =
          seen.begin <= first && first + kChunk <= end && first + kChunk <= seen.end;
      if (!is_whole) HideUnseen(seen, first, end, bundle.Weights(i, block * of_block + c));
    }
  }
}

// Caps all scores of the queries of a bundle (AttentionOptions::softcap), those that no query sees
// as well.
inline HWY_NOINLINE void CapScores(const Bundle& bundle, int64_t num_blocks, float cap) {
  const FloatTag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t chunk = 0; chunk < num_blocks * bundle.ChunksOfBlock(); ++chunk) {
    float* const scores = bundle.Weights(0, chunk);
    for (int64_t j = 0; j < bundle.size * kChunk; j += lanes) {
      hn::Store(SoftCapped(d, hn::Load(d, scores + j), cap), d, scores + j);
    }
  }
}

// Adds to the scores of query i what `bias` (of its head) has for the distances of keys. `start` is the
// position of the run's first key, counted from the query.
inline void BiasQuery(const Bundle& bundle, int64_t i, int64_t num_blocks, int64_t start,
                      const float* bias, int64_t reach) {
  const FloatTag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t of_block = bundle.ChunksOfBlock();
  for (int64_t chunk = 0; chunk < num_blocks * of_block; ++chunk) {
    float* const scores = bundle.Weights(i, chunk);
    const int64_t offset = start + chunk / of_block * bundle.block_size + chunk % of_block * kChunk;
    if (-reach <= offset && offset + kChunk - 1 <= reach) {
      const float* const from = bias + offset + reach;
      for (int64_t j = 0; j < kChunk; j += lanes) {
        hn::Store(hn::Add(hn::Load(d, scores + j), hn::LoadU(d, from + j)), d, scores + j);
      }
      continue;
    }
    for (int64_t j = 0; j < kChunk; ++j) {
      scores[j] += bias[std::clamp(offset + j, -reach, reach) + reach];
    }
  }
}

// The same of all queries of a bundle. `first` is the position of the run's first key.
inline HWY_NOINLINE void BiasScores(const Bundle& bundle, int64_t num_blocks, int64_t first,
                                    const DistanceBias& bias) {
  for (int64_t i = 0; i < bundle.size; ++i) {
    BiasQuery(bundle, i, num_blocks, first - bundle.query_position[i],
              bias.values + bundle.query_head[i] * (2 * bias.reach + 1), bias.reach);
  }
}

// The largest of `largest` and the scores of query i.
inline float LargestScore(const Bundle& bundle, int64_t i, int64_t num_chunks, float largest) {
  const FloatTag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto all = hn::Set(d, largest);
  for (int64_t chunk = 0; chunk < num_chunks; ++chunk) {
    const float* scores = bundle.Weights(i, chunk);
    for (int64_t j = 0; j < kChunk; j += lanes) all = hn::Max(all, hn::Load(d, scores + j));
  }
  return hn::GetLane(hn::MaxOfLanes(d, all));
}

// Turns the scores of query i into weights; returns their sum. Position j of a block goes to sum
// j % 16, so that the width of a vector does not matter.
inline float WeighScores(const Bundle& bundle, int64_t i, int64_t num_chunks, float maximum) {
  const FloatTag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  constexpr int kVectors = kMaxFloatLanes / hn::MaxLanes(d);
  hn::Vec<FloatTag> totals[kVectors];
  for (auto& total : totals) total = hn::Zero(d);
  for (int64_t chunk = 0; chunk < num_chunks; ++chunk) {
    float* const weights = bundle.Weights(i, chunk);
    for (int v = 0; v < kVectors; ++v) {
      float* const at = weights + v * lanes;
      const auto weight = Exp(d, hn::Sub(hn::Load(d, at), hn::Set(d, maximum)));
      hn::Store(weight, d, at);
      totals[v] = hn::Add(totals[v], weight);
    }
  }
  return SumOfSixteen(totals);
}

// The maxima of a bundle become `maxima` [kPaddedBundle], and what was summed up so far, or is to be
// rescaled, relative to them.
inline void RaiseMaxima(const Bundle& bundle, const float* maxima) {
  const FloatTag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < kPaddedBundle; i += lanes) {
    const auto before = hn::Load(d, bundle.state.maximum + i), after = hn::Load(d, maxima + i);
    const auto rescale =
        hn::IfThenElse(hn::Eq(before, after), hn::Set(d, 1.0f), Exp(d, hn::Sub(before, after)));
    const auto total = hn::Load(d, bundle.state.total + i);
    hn::Store(after, d, bundle.state.maximum + i);
    hn::Store(rescale, d, bundle.rescale + i);
    hn::Store(hn::Mul(total, rescale), d, bundle.state.total + i);
  }
}

// Turns the scores of a run of `num_blocks` blocks into weights. Query i sees seen[i] of the run.
inline HWY_NOINLINE void UpdateSoftmax(const Bundle& bundle, int64_t num_blocks, const Seen* seen) {
  const int64_t num_chunks = num_blocks * bundle.ChunksOfBlock();
  const int64_t positions = num_chunks * kChunk;
  HWY_ALIGN float maxima[kPaddedBundle];
  HWY_ALIGN float totals[kPaddedBundle] = {};
  std::copy_n(bundle.state.maximum, kPaddedBundle, maxima);
  for (int64_t i = 0; i < bundle.size; ++i) {
    if (seen[i].empty()) continue;
    if (seen[i].begin > 0 || seen[i].end < positions) {
      HideUnseenOfQuery(bundle, i, num_blocks, seen[i]);
    }
    maxima[i] = LargestScore(bundle, i, num_chunks, maxima[i]);
  }
  RaiseMaxima(bundle, maxima);
  for (int64_t i = 0; i < bundle.size; ++i) {
    if (!seen[i].empty()) totals[i] = WeighScores(bundle, i, num_chunks, maxima[i]);
  }
  for (int64_t i = 0; i < bundle.size; ++i) bundle.state.total[i] += totals[i];
}

// How the queries of a bundle are merged with those of a later split: the maxima and totals after
// it, and what the sums before it and those of the later split are multiplied with.
struct BundleMerge {
  HWY_ALIGN float maximum[kPaddedBundle];
  HWY_ALIGN float total[kPaddedBundle];
  HWY_ALIGN float before[kPaddedBundle];
  HWY_ALIGN float after[kPaddedBundle];
};

// Of all queries at once: what is computed for one of them costs a whole vector's work. What it
// says of a query that either state knows nothing of means nothing.
inline HWY_NOINLINE void PlanMerge(const BundleState& later, const BundleState& into,
                                   BundleMerge* merge) {
  const FloatTag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < kPaddedBundle; i += lanes) {
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

}  // namespace HWY_NAMESPACE
}  // namespace sluice
HWY_AFTER_NAMESPACE();

#endif  // SLUICE_KERNELS_CPU_ATTENTION_SOFTMAX_INL_H_
