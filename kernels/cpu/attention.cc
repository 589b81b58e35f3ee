#include "kernels/cpu/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "hwy/cache_control.h"
#include "kernels/check.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attention.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/cpu/simd-inl.h"
// clang-format on

#ifndef SLUICE_KERNELS_CPU_ATTENTION_BUNDLE_
#define SLUICE_KERNELS_CPU_ATTENTION_BUNDLE_
namespace sluice {

// Scratch memory of a bundle; a multiple of 16 floats, which keeps all of them aligned.
inline int64_t BundleFloats(const CpuKvPool& pool) {
  constexpr int64_t kQueryStates = 3 * 16;
  return kBundle * (2 * pool.value_stride() + pool.position_stride()) + kQueryStates;
}

}  // namespace sluice
#endif

HWY_BEFORE_NAMESPACE();
namespace sluice {
namespace HWY_NAMESPACE {
namespace {

// The state of a bundle, in scratch memory.
struct Bundle {
  int64_t size;       // queries
  int64_t positions;  // elements between two rows of `weights`
  int64_t values;     // elements between two rows of `sums`
  float* q;           // [D, size]
  float* weights;     // [size, positions], of the current block
  float* rescale;     // [size], of the current block
  float* maximum;     // [size]
  float* total;       // [size]: the sum of exponentials, relative to the maximum
  float* sums;        // [size, values]: the weighted values, relative to the maximum
};

// One head's part of a block, and of the one that follows, which is fetched ahead: blocks lie far
// apart, so the processor does not foresee them.
template <class T>
struct Block {
  const T* keys;
  const T* values;
  const T* next_keys;
  const T* next_values;
};

// The positions [begin, end) of a block, counted from its first, that a query sees.
struct Seen {
  int64_t begin;
  int64_t end;

  bool operator==(const Seen&) const = default;
};

// weights[i] = scale * (q_i . key of position), for kQueries queries from `first` on and at least
// the positions seen.
template <int kQueries, class T>
void Scores(const Bundle& bundle, int64_t first, const Block<T>& block, int64_t head_dim, Seen seen,
            float scale) {
  const FloatTag d;
  using V = hn::Vec<FloatTag>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t position = seen.begin / lanes * lanes; position < seen.end; position += lanes) {
    V sums[kQueries];
    for (int i = 0; i < kQueries; ++i) sums[i] = hn::Zero(d);
    const float* q = bundle.q + first;
    for (int64_t e = 0; e < head_dim; ++e, q += bundle.size) {
      const int64_t at = e * bundle.positions + position;
      hwy::Prefetch(block.next_keys + at);
      const V k = LoadWide(d, block.keys + at);
      for (int i = 0; i < kQueries; ++i) sums[i] = hn::MulAdd(hn::Set(d, q[i]), k, sums[i]);
    }
    for (int i = 0; i < kQueries; ++i) {
      float* to = bundle.weights + (first + i) * bundle.positions + position;
      hn::Store(hn::Mul(sums[i], hn::Set(d, scale)), d, to);
    }
  }
}

// Turns the scores of query i over the positions seen of a block into weights.
void UpdateSoftmax(const Bundle& bundle, int64_t i, Seen seen) {
  const FloatTag d;
  float* weights = bundle.weights + i * bundle.positions;
  const int64_t padded = (seen.end + kMaxFloatLanes - 1) / kMaxFloatLanes * kMaxFloatLanes;
  // What lies behind the row's position or before its window is not the row's to see, nor need it
  // be a number.
  constexpr float kUnseen = -std::numeric_limits<float>::infinity();
  std::fill(weights, weights + seen.begin, kUnseen);
  std::fill(weights + seen.end, weights + padded, kUnseen);
  const float maximum = std::max(bundle.maximum[i], Maximum(weights, padded));
  hn::Vec<FloatTag> sums = hn::Zero(d);
  for (int64_t j = 0; j < padded; j += hn::Lanes(d)) {
    const auto weight = Exp(d, hn::Sub(hn::Load(d, weights + j), hn::Set(d, maximum)));
    hn::Store(weight, d, weights + j);
    sums = hn::Add(sums, weight);
  }
  const float rescale = hn::GetLane(Exp(d, hn::Set(d, bundle.maximum[i] - maximum)));
  bundle.total[i] = bundle.total[i] * rescale + hn::GetLane(hn::SumOfLanes(d, sums));
  bundle.maximum[i] = maximum;
  bundle.rescale[i] = rescale;
}

// sums[i] = rescale * sums[i] + the weighted values of the positions seen.
template <int kQueries, class T>
void AddValues(const Bundle& bundle, int64_t first, const Block<T>& block, Seen seen) {
  const FloatTag d;
  using V = hn::Vec<FloatTag>;
  const float* weights = bundle.weights + first * bundle.positions;
  for (int64_t e = 0; e < bundle.values; e += hn::Lanes(d)) {
    float* to = bundle.sums + first * bundle.values + e;
    V sums[kQueries];
    for (int i = 0; i < kQueries; ++i) {
      sums[i] = hn::Mul(hn::Load(d, to + i * bundle.values), hn::Set(d, bundle.rescale[first + i]));
    }
    for (int64_t j = seen.begin; j < seen.end; ++j) {
      const int64_t at = j * bundle.values + e;
      hwy::Prefetch(block.next_values + at);
      const V value = LoadWide(d, block.values + at);
      for (int i = 0; i < kQueries; ++i) {
        sums[i] = hn::MulAdd(hn::Set(d, weights[i * bundle.positions + j]), value, sums[i]);
      }
    }
    for (int i = 0; i < kQueries; ++i) hn::Store(sums[i], d, to + i * bundle.values);
  }
}

// The positions seen of one block, for kQueries queries from `first` on.
template <int kQueries, class T>
void AddBlock(const Bundle& bundle, int64_t first, const Block<T>& block, int64_t head_dim,
              Seen seen, float scale) {
  Scores<kQueries>(bundle, first, block, head_dim, seen, scale);
  for (int i = 0; i < kQueries; ++i) UpdateSoftmax(bundle, first + i, seen);
  AddValues<kQueries>(bundle, first, block, seen);
}

template <class T>
class AttentionWorker {
 public:
  AttentionWorker(MatrixView q, const CpuKvPool& pool, int layer, const AttentionOptions& options,
                  MatrixView out)
      : q_(q),
        pool_(pool),
        layer_(layer),
        options_(options),
        out_(out),
        head_dim_(pool.spec().head_dim),
        block_size_(pool.spec().block_size),
        group_(q.cols / head_dim_ / pool.spec().num_kv_heads) {}

  void Run(const AttentionTask& task, float* scratch) const {
    Bundle bundles[kQueriesPerTask / kBundle];
    const int64_t num_bundles = (task.count + kBundle - 1) / kBundle;
    for (int64_t b = 0; b < num_bundles; ++b) {
      bundles[b] = Start(task, b, scratch + b * BundleFloats(pool_));
    }
    const int64_t last = Position(task, task.count - 1);
    const int64_t begin = FirstSeen(task, 0) / block_size_ * block_size_;
    for (int64_t start = begin; start <= last; start += block_size_) {
      const int32_t id = pool_.BlockOf(*task.segment, start);
      const int32_t next =
          start + block_size_ <= last ? pool_.BlockOf(*task.segment, start + block_size_) : id;
      const Block<T> block{.keys = pool_.Keys<T>(layer_, id, task.kv_head),
                           .values = pool_.Values<T>(layer_, id, task.kv_head),
                           .next_keys = pool_.Keys<T>(layer_, next, task.kv_head),
                           .next_values = pool_.Values<T>(layer_, next, task.kv_head)};
      for (int64_t b = 0; b < num_bundles; ++b) AddBlockTo(task, b, bundles[b], start, block);
    }
    for (int64_t b = 0; b < num_bundles; ++b) Finish(task, b, bundles[b]);
  }

 private:
  int64_t Position(const AttentionTask& task, int64_t query) const {
    return task.segment->first_position + (task.first + query) / group_;
  }
  int64_t Row(const AttentionTask& task, int64_t query) const {
    return task.segment->first_row + (task.first + query) / group_;
  }
  int64_t Column(const AttentionTask& task, int64_t query) const {
    return (task.kv_head * group_ + (task.first + query) % group_) * head_dim_;
  }
  // The first position that a query sees.
  int64_t FirstSeen(const AttentionTask& task, int64_t query) const {
    if (options_.window == 0) return 0;
    return std::max<int64_t>(0, Position(task, query) + 1 - options_.window);
  }
  // What a query sees of the block from `start` on; empty where begin == end.
  Seen SeenOf(const AttentionTask& task, int64_t query, int64_t start) const {
    const int64_t end = std::clamp<int64_t>(Position(task, query) - start + 1, 0, block_size_);
    return {std::clamp<int64_t>(FirstSeen(task, query) - start, 0, end), end};
  }

  Bundle Start(const AttentionTask& task, int64_t index, float* scratch) const {
    Bundle bundle;
    bundle.size = std::min(kBundle, task.count - index * kBundle);
    bundle.positions = pool_.position_stride();
    bundle.values = pool_.value_stride();
    bundle.sums = scratch;
    bundle.weights = bundle.sums + kBundle * bundle.values;
    bundle.q = bundle.weights + kBundle * bundle.positions;
    bundle.rescale = bundle.q + kBundle * bundle.values;
    bundle.maximum = bundle.rescale + kMaxFloatLanes;
    bundle.total = bundle.maximum + kMaxFloatLanes;
    std::fill_n(bundle.sums, bundle.size * bundle.values, 0.0f);
    std::fill_n(bundle.maximum, bundle.size, -std::numeric_limits<float>::infinity());
    std::fill_n(bundle.total, bundle.size, 0.0f);
    for (int64_t i = 0; i < bundle.size; ++i) {
      const int64_t query = index * kBundle + i;
      const float* from = q_.Row(Row(task, query)) + Column(task, query);
      for (int64_t e = 0; e < head_dim_; ++e) bundle.q[e * bundle.size + i] = from[e];
    }
    return bundle;
  }

  // Adds the block whose first position is `start`.
  void AddBlockTo(const AttentionTask& task, int64_t index, const Bundle& bundle, int64_t start,
                  const Block<T>& block) const {
    const int64_t first = index * kBundle;
    const Seen of_last = SeenOf(task, first + bundle.size - 1, start);
    const bool all_see_the_same = SeenOf(task, first, start) == of_last;
    for (int64_t i = 0; i < bundle.size;) {
      const Seen seen = SeenOf(task, first + i, start);
      const int64_t together = all_see_the_same ? bundle.size - i : 1;
      if (seen.begin == seen.end) {
        i += together;
      } else if (together >= 8) {
        AddBlock<8>(bundle, i, block, head_dim_, seen, options_.scale);
        i += 8;
      } else if (together >= 4) {
        AddBlock<4>(bundle, i, block, head_dim_, seen, options_.scale);
        i += 4;
      } else if (together >= 2) {
        AddBlock<2>(bundle, i, block, head_dim_, seen, options_.scale);
        i += 2;
      } else {
        AddBlock<1>(bundle, i, block, head_dim_, seen, options_.scale);
        i += 1;
      }
    }
  }

  void Finish(const AttentionTask& task, int64_t index, const Bundle& bundle) const {
    for (int64_t i = 0; i < bundle.size; ++i) {
      const int64_t query = index * kBundle + i;
      const float* sums = bundle.sums + i * bundle.values;
      float* to = out_.Row(Row(task, query)) + Column(task, query);
      for (int64_t e = 0; e < head_dim_; ++e) to[e] = sums[e] / bundle.total[i];
    }
  }

  const MatrixView q_;
  const CpuKvPool& pool_;
  const int layer_;
  const AttentionOptions options_;
  const MatrixView out_;
  const int64_t head_dim_;
  const int64_t block_size_;
  const int64_t group_;
};

template <class T>
void RunTasks(CpuContext& context, const AttentionWorker<T>& attention, const CpuKvPool& pool,
              absl::Span<const AttentionTask> tasks) {
  const size_t scratch_size = kQueriesPerTask / kBundle * BundleFloats(pool);
  context.pool.ParallelFor(static_cast<int64_t>(tasks.size()), [&](int64_t index, int worker) {
    attention.Run(tasks[index], context.scratch.Floats(worker, scratch_size));
  });
}

void Attend(CpuContext& context, MatrixView q, const CpuKvPool& pool, int layer,
            absl::Span<const AttentionTask> tasks, const AttentionOptions& options,
            MatrixView out) {
  if (pool.spec().dtype == DType::kF32) {
    RunTasks(context, AttentionWorker<float>(q, pool, layer, options, out), pool, tasks);
  } else {
    RunTasks(context, AttentionWorker<uint16_t>(q, pool, layer, options, out), pool, tasks);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace sluice
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice {

HWY_EXPORT(Attend);

void ReserveAttention(CpuContext& context, const CpuKvPool& pool, int64_t max_rows) {
  context.scratch.Reserve(kQueriesPerTask / kBundle * BundleFloats(pool));
  // Most where every row is a sequence by itself.
  context.attention_tasks.reserve(max_rows * pool.spec().num_kv_heads);
}

void PagedAttention(CpuContext& context, MatrixView q, const CpuKvPool& pool, int layer,
                    absl::Span<const AttentionSegment> segments, const AttentionOptions& options,
                    MatrixView out) {
  const KvPoolSpec& spec = pool.spec();
  const int64_t kv_width = int64_t{1} * spec.num_kv_heads * spec.head_dim;
  SLUICE_CHECK(0 <= layer && layer < spec.num_layers && options.window >= 0);
  SLUICE_CHECK(q.cols % kv_width == 0 && q.rows == out.rows && q.cols == out.cols);
  std::vector<AttentionTask>& tasks = context.attention_tasks;
  tasks.clear();
  for (const AttentionSegment& segment : segments) {
    SLUICE_CHECK(segment.first_row + segment.num_rows <= q.rows);
    const int64_t queries = segment.num_rows * (q.cols / kv_width);
    for (int head = 0; head < spec.num_kv_heads; ++head) {
      for (int64_t first = 0; first < queries; first += kQueriesPerTask) {
        tasks.push_back({&segment, head, first, std::min(kQueriesPerTask, queries - first)});
      }
    }
  }
  HWY_DYNAMIC_DISPATCH(Attend)(context, q, pool, layer, tasks, options, out);
}

}  // namespace sluice
#endif  // HWY_ONCE
