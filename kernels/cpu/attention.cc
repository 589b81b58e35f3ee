#include "kernels/cpu/attention.h"

#include <algorithm>
#include <limits>

#include "kernels/check.h"
#include "kernels/cpu/attention_bundle.h"
#include "kernels/cpu/attention_task.h"
#include "kernels/cpu/open_attention.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attention.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/cpu/attention_softmax-inl.h"
#include "kernels/cpu/attention_tile-inl.h"
#include "kernels/cpu/attention_transpose-inl.h"
// clang-format on

#ifndef SLUICE_KERNELS_CPU_ATTENTION_SIZES_
#define SLUICE_KERNELS_CPU_ATTENTION_SIZES_
namespace sluice {

// Floats that attention works in: multiples of 16, which keeps everything aligned.
struct AttentionSizes {
  static constexpr int64_t kBundles = Bundles(kMostQueriesOfTask).count;

  explicit AttentionSizes(const KvPoolSpec& spec)
      : chunks(kBlocksPerRun * ((spec.block_size + kChunk - 1) / kChunk)),
        keys((spec.head_dim + 15) / 16 * 16),
        values((spec.value_dim() + 15) / 16 * 16),
        transposed(TransposedFloats(spec)) {}

  // Queries, weights and what to rescale of a bundle.
  int64_t BundleWork() const { return kBundle * (keys + chunks * kChunk) + kPaddedBundle; }
  // Sums, maxima and totals.
  int64_t BundleState() const { return kBundle * values + 2 * kPaddedBundle; }
  int64_t TaskState() const { return kBundles * BundleState(); }
  // Of a worker: a split at work, what is merged already, and the transposed keys of a run.
  int64_t Scratch() const { return kBundles * BundleWork() + 2 * TaskState() + transposed; }

  int64_t chunks;      // of a run
  int64_t keys;        // elements of a key, padded
  int64_t values;      // of a value, padded
  int64_t transposed;  // of a run's keys in the latent layout; 0 where the pool has them transposed

 private:
  // A vector of positions may reach past the last block's end.
  static int64_t TransposedFloats(const KvPoolSpec& spec) {
    if (!spec.is_latent()) return 0;
    const int64_t bytes =
        kBlocksPerRun * int64_t{1} * spec.block_size * spec.head_dim * SizeOf(spec.dtype);
    return (bytes + 63) / 64 * 16 + kChunk;
  }
};

}  // namespace sluice
#endif

HWY_BEFORE_NAMESPACE();
namespace sluice {
namespace HWY_NAMESPACE {
namespace {

// One split of a task.
struct SplitOfTask {
  const AttentionTask& task;
  int64_t split;

  int64_t begin() const { return split * kAttentionSplit; }  // position
  int64_t end() const { return begin() + kAttentionSplit; }
};

// What the queries of a bundle see of a run.
struct SeenOfRun {
  Seen query[kBundle];
  Seen any;  // from the first to the last that any of them sees
  Seen all;  // that all of them see
};

template <class T>
class AttentionWorker {
 public:
  AttentionWorker(MatrixView q, const CpuKvPool& pool, int layer, const AttentionOptions& options,
                  const DistanceBias& bias, int64_t ahead, MatrixView out)
      : q_(q),
        pool_(pool),
        layer_(layer),
        options_(options),
        bias_(bias),
        ahead_(ahead),
        out_(out),
        sizes_(pool.spec()),
        head_dim_(pool.spec().head_dim),
        value_dim_(pool.spec().value_dim()),
        is_latent_(pool.spec().is_latent()),
        block_size_(pool.spec().block_size),
        group_(q.cols / head_dim_ / pool.spec().num_kv_heads) {}

  // Leaves the states of the task's splits from `states` on or, where that is null, merges them and
  // writes the result. What `next` reads first is fetched ahead at the end.
  void Run(const AttentionTask& task, const AttentionTask& next, float* scratch,
           float* states) const {
    Bundle bundles[AttentionSizes::kBundles];
    Start(task, scratch, bundles);
    float* const merged = scratch + AttentionSizes::kBundles * sizes_.BundleWork();
    auto* const transposed = reinterpret_cast<T*>(merged + 2 * sizes_.TaskState());
    for (int64_t split = task.splits.begin; split < task.splits.end; ++split) {
      const int64_t index = split - task.splits.begin;
      const bool is_last = split + 1 == task.splits.end;
      const SplitOfTask then =
          is_last ? SplitOfTask{next, next.splits.begin} : SplitOfTask{task, split + 1};
      float* const state = states != nullptr ? states + index * sizes_.TaskState()
                           : index == 0      ? merged
                                             : merged + sizes_.TaskState();
      RunSplit({task, split}, then, state, bundles, transposed);
      if (states == nullptr && index > 0) MergeSplit({task, split}, state, merged);
    }
    if (states == nullptr) Finish(task, merged);
  }

  // Merges the splits of a task, whose states were left from `states` on, and writes the result.
  void Merge(const AttentionTask& task, float* states) const {
    for (int64_t index = 1; index < task.splits.size(); ++index) {
      MergeSplit({task, task.splits.begin + index}, states + index * sizes_.TaskState(), states);
    }
    Finish(task, states);
  }

 private:
  int64_t Position(const AttentionTask& task, int64_t query) const {
    return task.segment->first_position + (task.first + query) / group_;
  }
  int64_t Row(const AttentionTask& task, int64_t query) const {
    return task.segment->first_row + (task.first + query) / group_;
  }
  int64_t Head(const AttentionTask& task, int64_t query) const {
    return task.kv_head * group_ + (task.first + query) % group_;
  }
  int64_t FirstSeen(int64_t position) const {
    return FirstSeenPosition(position, options_.window, options_.chunk);
  }
  int64_t LastSeen(const AttentionTask& task, int64_t position) const {
    return LastSeenPosition(position, ahead_,
                            task.segment->first_position + task.segment->num_rows - 1);
  }
  BundleState State(float* states, int64_t bundle) const {
    float* const sums = states + bundle * sizes_.BundleState();
    float* const maximum = sums + kBundle * sizes_.values;
    return {.maximum = maximum, .total = maximum + kPaddedBundle, .sums = sums};
  }

  // ---- Blocks of a split, by their index in the block table ----

  int64_t FirstBlock(const SplitOfTask& part) const {
    return std::max(FirstSeen(Position(part.task, 0)), part.begin()) / block_size_;
  }
  int64_t LastBlock(const SplitOfTask& part) const {
    const int64_t last = LastSeen(part.task, Position(part.task, part.task.count - 1));
    return std::min(last, part.end() - 1) / block_size_;
  }
  // The first block of the first run that is needed. Runs are counted from the split's first block,
  // so that they are the same for every query.
  int64_t FirstRun(const SplitOfTask& part) const {
    const int64_t first = part.begin() / block_size_;
    return first + (FirstBlock(part) - first) / kBlocksPerRun * kBlocksPerRun;
  }
  BlockRun<T> RunAt(const SplitOfTask& part, int64_t first) const {
    BlockRun<T> run;
    const int64_t begin = FirstBlock(part), last = LastBlock(part);
    run.count = std::min(kBlocksPerRun, last - first + 1);
    for (int64_t b = 0; b < kBlocksPerRun; ++b) {
      const int64_t block = std::clamp(first + b, begin, last);
      const int32_t id = pool_.BlockOf(*part.task.segment, block * block_size_);
      run.keys[b] = pool_.Keys<T>(layer_, id, part.task.kv_head);
      run.values[b] = pool_.Values<T>(layer_, id, part.task.kv_head);
      if constexpr (kIsFp8<T>) {
        run.key_scales[b] = pool_.Scales(layer_, id, part.task.kv_head);
        run.value_scales[b] = run.key_scales[b] + (is_latent_ ? 0 : block_size_);
      }
    }
    return run;
  }
  // What a bundle sees of the run of `num_blocks` blocks that begins with block `first`.
  SeenOfRun SeenBy(const SplitOfTask& part, const Bundle& bundle, int64_t first,
                   int64_t num_blocks) const {
    const int64_t start = first * block_size_, length = num_blocks * block_size_;
    SeenOfRun seen{.any = {length, 0}, .all = {0, length}};
    for (int64_t i = 0; i < bundle.size; ++i) {
      const int64_t position = bundle.query_position[i];
      const Seen in_split{std::max(FirstSeen(position), part.begin()),
                          std::min(LastSeen(part.task, position) + 1, part.end())};
      const Seen in_run = in_split.Within(start, length);
      seen.query[i] = in_run;
      seen.all = {std::max(seen.all.begin, in_run.begin), std::min(seen.all.end, in_run.end)};
      if (in_run.empty()) continue;
      seen.any = {std::min(seen.any.begin, in_run.begin), std::max(seen.any.end, in_run.end)};
    }
    return seen;
  }

  // ---- Steps of a task ----

  void Start(const AttentionTask& task, float* scratch, Bundle* bundles) const {
    const Bundles shares(task.count);
    for (int64_t first = 0; first < task.count; first += shares.size, ++bundles) {
      bundles->size = std::min(shares.size, task.count - first);
      bundles->head_dim = head_dim_;
      bundles->block_size = block_size_;
      bundles->values = sizes_.values;
      bundles->rescale = scratch;
      bundles->weights = bundles->rescale + kPaddedBundle;
      bundles->q = bundles->weights + kBundle * sizes_.chunks * kChunk;
      for (int64_t i = 0; i < bundles->size; ++i) {
        bundles->query_position[i] = Position(task, first + i);
        bundles->query_head[i] = Head(task, first + i);
        const float* from = q_.Row(Row(task, first + i)) + Head(task, first + i) * head_dim_;
        for (int64_t e = 0; e < head_dim_; ++e) bundles->q[e * bundles->size + i] = from[e];
      }
      scratch += sizes_.BundleWork();
    }
  }

  // `transposed` has room for the keys of a run in the latent layout.
  void RunSplit(const SplitOfTask& part, const SplitOfTask& then, float* states, Bundle* bundles,
                T* transposed) const {
    const int64_t num_bundles = Bundles(part.task.count).count;
    for (int64_t b = 0; b < num_bundles; ++b) {
      bundles[b].state = State(states, b);
      std::fill_n(bundles[b].state.sums, bundles[b].size * sizes_.values, 0.0f);
      std::fill_n(bundles[b].state.maximum, kPaddedBundle, -std::numeric_limits<float>::infinity());
      std::fill_n(bundles[b].state.total, kPaddedBundle, 0.0f);
    }
    const int64_t last = LastBlock(part);
    int64_t first = FirstRun(part);
    BlockRuns<T> runs{.now = {}, .next = RunAt(part, first)};
    for (; first <= last; first += kBlocksPerRun) {
      runs.now = runs.next;
      runs.next = first + kBlocksPerRun <= last ? RunAt(part, first + kBlocksPerRun)
                                                : RunAt(then, FirstRun(then));
      if (is_latent_) TransposeKeys(head_dim_, block_size_, transposed, &runs.now);
      AddRun(part, runs, first, {bundles, static_cast<size_t>(num_bundles)});
    }
  }

  // Adds the run that begins with block `first` of the table: its keys, which are then in the
  // cache, for all bundles, and then its values.
  void AddRun(const SplitOfTask& part, BlockRuns<T> runs, int64_t first,
              absl::Span<const Bundle> bundles) const {
    SeenOfRun seen[AttentionSizes::kBundles];
    const BlockRun<T> next = runs.next;
    for (size_t b = 0; b < bundles.size(); ++b) {
      seen[b] = SeenBy(part, bundles[b], first, runs.now.count);
      if (seen[b].any.empty()) continue;
      WithSize(bundles[b].size, [&](auto size) {
        Score<decltype(size)::value>(bundles[b], runs, seen[b].any, options_.scale);
      });
      if (options_.softcap > 0) CapScores(bundles[b], runs.now.count, options_.softcap);
      if (bias_.values != nullptr) {
        BiasScores(bundles[b], runs.now.count, first * block_size_, bias_);
      }
      UpdateSoftmax(bundles[b], runs.now.count, seen[b].query);
      runs.next = runs.now;  // the first has asked for it
    }
    runs.next = next;
    for (size_t b = 0; b < bundles.size(); ++b) {
      if (seen[b].any.empty()) continue;
      WithSize(bundles[b].size, [&](auto size) {
        AddValues<decltype(size)::value>(bundles[b], runs, seen[b].query, seen[b].all);
      });
      runs.next = runs.now;
    }
  }

  // Merges a split into those before it, for the queries that see something of it.
  void MergeSplit(const SplitOfTask& part, float* later, float* into) const {
    const Bundles shares(part.task.count);
    for (int64_t b = 0; b < shares.count; ++b) {
      const int64_t first = b * shares.size;
      const int64_t size = std::min(shares.size, part.task.count - first);
      MergeBundle(part, first, size, State(later, b), State(into, b));
    }
  }

  void MergeBundle(const SplitOfTask& part, int64_t first, int64_t size, const BundleState& from,
                   const BundleState& to) const {
    BundleMerge merge;
    PlanMerge(from, to, &merge);
    for (int64_t i = 0; i < size; ++i) {
      const int64_t position = Position(part.task, first + i);
      const SplitRange seen = SplitsFrom(FirstSeen(position), LastSeen(part.task, position));
      if (part.split < seen.begin || part.split >= seen.end) continue;
      if (part.split > seen.begin) {
        MergeQuery(from, merge, i, sizes_.values, to);
        continue;
      }
      to.maximum[i] = from.maximum[i];
      to.total[i] = from.total[i];
      std::copy_n(from.sums + i * sizes_.values, sizes_.values, to.sums + i * sizes_.values);
    }
  }

  void Finish(const AttentionTask& task, float* states) const {
    const int64_t of_bundle = Bundles(task.count).size;
    for (int64_t query = 0; query < task.count; ++query) {
      const BundleState state = State(states, query / of_bundle);
      const int64_t i = query % of_bundle;
      const float* sums = state.sums + i * sizes_.values;
      float* to = out_.Row(Row(task, query)) + Head(task, query) * value_dim_;
      // NOLINTNEXTLINE(clang-analyzer-core.NullDereference): `states` is scratch of this worker
      for (int64_t e = 0; e < value_dim_; ++e) to[e] = sums[e] / state.total[i];
      if (options_.sinks != nullptr) AddSink(Head(task, query), state, i, to);
    }
  }

  // The sink's part of the softmax has no value, so that the others' shrinks.
  void AddSink(int64_t head, const BundleState& state, int64_t i, float* to) const {
    const OneFloatTag d;
    const float maximum = state.maximum[i], sink = options_.sinks[head];
    const float largest = std::max(maximum, sink);
    const auto exp = [&](float score)
                         HWY_ATTR { return hn::GetLane(Exp(d, hn::Set(d, score - largest))); };
    const float seen = state.total[i] * exp(maximum);
    const float part = seen / (seen + exp(sink));
    for (int64_t e = 0; e < value_dim_; ++e) to[e] *= part;
  }

  const MatrixView q_;
  const CpuKvPool& pool_;
  const int layer_;
  const AttentionOptions options_;
  const DistanceBias bias_;  // CrossAttentionOps'
  const int64_t ahead_;      // OpenAttentionOps'
  const MatrixView out_;
  const AttentionSizes sizes_;
  const int64_t head_dim_;
  const int64_t value_dim_;
  const bool is_latent_;
  const int64_t block_size_;
  const int64_t group_;
};

template <class T>
void RunPlan(CpuContext& context, const AttentionWorker<T>& attention, const KvPoolSpec& spec) {
  const AttentionSizes sizes(spec);
  const AttentionPlan& plan = context.attention.plan;
  float* const states = context.attention.States(plan.num_states * sizes.TaskState());
  const auto states_of = [&](const AttentionTask& task) {
    return task.first_state < 0 ? nullptr : states + task.first_state * sizes.TaskState();
  };
  const auto count = static_cast<int64_t>(plan.tasks.size());
  const int threads = context.pool.num_threads();
  context.pool.ParallelFor(count, [&](int64_t index, int worker) {
    const AttentionTask& task = plan.tasks[index];
    const AttentionTask& next = plan.tasks[std::min(index + threads, count - 1)];
    attention.Run(task, next, context.scratch.Floats(worker, sizes.Scratch()), states_of(task));
  });
  context.pool.ParallelFor(static_cast<int64_t>(plan.merges.size()), [&](int64_t index, int) {
    attention.Merge(plan.merges[index], states_of(plan.merges[index]));
  });
}

void Attend(CpuContext& context, MatrixView q, const CpuKvPool& pool, int layer,
            const AttentionOptions& options, const DistanceBias& bias, int64_t ahead,
            MatrixView out) {
  if (pool.spec().dtype == DType::kF32) {
    RunPlan(context, AttentionWorker<float>(q, pool, layer, options, bias, ahead, out),
            pool.spec());
  } else if (pool.spec().dtype == DType::kBF16) {
    RunPlan(context, AttentionWorker<uint16_t>(q, pool, layer, options, bias, ahead, out),
            pool.spec());
  } else {
    RunPlan(context, AttentionWorker<uint8_t>(q, pool, layer, options, bias, ahead, out),
            pool.spec());
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
  const KvPoolSpec& spec = pool.spec();
  const AttentionSizes sizes(spec);
  const int64_t most_states = MostAttentionStates(int64_t{1} * spec.num_blocks * spec.block_size,
                                                  context.pool.num_threads());
  context.scratch.Reserve(sizes.Scratch());
  context.attention.States(most_states * sizes.TaskState());
  // Most where every row is a sequence by itself.
  context.attention.plan.tasks.reserve(max_rows * spec.num_kv_heads + most_states);
  context.attention.plan.merges.reserve(most_states);
  // As many table entries as there are blocks; more only where sequences share many.
  context.step.Reserve(max_rows, spec.num_blocks);
}

void PagedAttention(CpuContext& context, MatrixView q, const CpuKvPool& pool, int layer,
                    const AttentionOptions& options, MatrixView out) {
  OpenAttention(context, q, pool, layer, options, /*ahead=*/0, out);
}

namespace {

void AttendSegments(CpuContext& context, absl::Span<const AttentionSegment> segments, MatrixView q,
                    const CpuKvPool& pool, int layer, const AttentionOptions& options,
                    const DistanceBias& bias, int64_t ahead, MatrixView out) {
  const KvPoolSpec& spec = pool.spec();
  const int64_t kv_width = int64_t{1} * spec.num_kv_heads * spec.head_dim;
  SLUICE_CHECK(0 <= layer && layer < spec.num_layers && options.window >= 0);
  SLUICE_CHECK(options.softcap >= 0 && ahead >= 0);
  SLUICE_CHECK(q.cols % kv_width == 0 && q.rows == out.rows);
  SLUICE_CHECK(out.cols == q.cols / spec.head_dim * spec.value_dim());
  for (const AttentionSegment& segment : segments) {
    SLUICE_CHECK(segment.first_row + segment.num_rows <= q.rows);
  }
  PlanOpenAttention(segments,
                    {.num_kv_heads = spec.num_kv_heads,
                     .group = q.cols / kv_width,
                     .window = options.window,
                     .num_threads = context.pool.num_threads(),
                     .chunk = options.chunk},
                    ahead, &context.attention.plan);
  HWY_DYNAMIC_DISPATCH(Attend)(context, q, pool, layer, options, bias, ahead, out);
}

}  // namespace

void OpenAttention(CpuContext& context, MatrixView q, const CpuKvPool& pool, int layer,
                   const AttentionOptions& options, int64_t ahead, MatrixView out) {
  BiasedAttention(context, q, pool, layer, options, /*bias=*/{}, ahead, out);
}

void BiasedAttention(CpuContext& context, MatrixView q, const CpuKvPool& pool, int layer,
                     const AttentionOptions& options, const DistanceBias& bias, int64_t ahead,
                     MatrixView out) {
  AttendSegments(context, context.step.segments(), q, pool, layer, options, bias, ahead, out);
}

void CrossAttention(CpuContext& context, MatrixView q, const CpuKvPool& pool, int layer,
                    const AttentionOptions& options, absl::Span<const SourceSegment> segments,
                    MatrixView out) {
  SLUICE_CHECK(options.window == 0 && options.chunk == 0);
  std::vector<AttentionSegment>& as_positions = context.attention.sources;
  as_positions.clear();
  for (const SourceSegment& segment : segments) {
    SLUICE_CHECK(segment.num_positions >= 1);
    as_positions.push_back(AsAttentionSegment(segment));
  }
  AttendSegments(context, as_positions, q, pool, layer, options, /*bias=*/{}, kWholeSource, out);
}

}  // namespace sluice
#endif  // HWY_ONCE
