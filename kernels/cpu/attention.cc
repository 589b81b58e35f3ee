#include "kernels/cpu/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/check.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attention.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/cpu/attention_bundle-inl.h"
// clang-format on

#ifndef SLUICE_KERNELS_CPU_ATTENTION_BUNDLE_
#define SLUICE_KERNELS_CPU_ATTENTION_BUNDLE_
namespace sluice {

// Scratch memory of a bundle; a multiple of 16 floats, which keeps all of them aligned.
inline int64_t Padded(int64_t count) { return (count + 15) / 16 * 16; }
inline int64_t BundleFloats(const KvPoolSpec& spec) {
  constexpr int64_t kQueryStates = 2 * 16;
  return kBundle * (2 * Padded(spec.head_dim) + kBlocksPerRun * Padded(spec.block_size)) +
         kQueryStates;
}

}  // namespace sluice
#endif

HWY_BEFORE_NAMESPACE();
namespace sluice {
namespace HWY_NAMESPACE {
namespace {

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

  // `next` is fetched ahead at the end.
  void Run(const AttentionTask& task, const AttentionTask& next, float* scratch) const {
    Bundle bundles[kQueriesPerTask / kBundle];
    const int64_t num_bundles = (task.count + kBundle - 1) / kBundle;
    for (int64_t b = 0; b < num_bundles; ++b) {
      bundles[b] = Start(task, b, scratch + b * BundleFloats(pool_.spec()));
    }
    const int64_t last = LastPosition(task);
    const int64_t positions_per_run = kBlocksPerRun * block_size_;
    int64_t start = FirstRun(task);
    BlockRuns<T> runs{.now = {}, .next = RunAt(task, start)};
    for (; start <= last; start += positions_per_run) {
      runs.now = runs.next;
      runs.next = start + positions_per_run <= last ? RunAt(task, start + positions_per_run)
                                                    : RunAt(next, FirstRun(next));
      for (int64_t b = 0; b < num_bundles; ++b) Add(runs, start, bundles[b]);
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
  // The first position that the query at `position` sees.
  int64_t FirstSeen(int64_t position) const {
    return options_.window == 0 ? 0 : std::max<int64_t>(0, position + 1 - options_.window);
  }
  int64_t LastPosition(const AttentionTask& task) const { return Position(task, task.count - 1); }
  // The first position of the first run that a task needs: a multiple of a run's positions, so that
  // runs are the same for every query.
  int64_t FirstRun(const AttentionTask& task) const {
    const int64_t positions_per_run = kBlocksPerRun * block_size_;
    return FirstSeen(Position(task, 0)) / positions_per_run * positions_per_run;
  }
  // What the query at `position` sees of the block from `start` on.
  Seen SeenOf(int64_t position, int64_t start) const {
    const int64_t end = std::clamp<int64_t>(position + 1 - start, 0, block_size_);
    return {std::clamp<int64_t>(FirstSeen(position) - start, 0, end), end};
  }

  // The blocks from position `start` on.
  BlockRun<T> RunAt(const AttentionTask& task, int64_t start) const {
    BlockRun<T> run;
    const int64_t first = FirstSeen(Position(task, 0)), last = LastPosition(task);
    run.count = std::min(kBlocksPerRun, (last - start) / block_size_ + 1);
    for (int64_t b = 0; b < kBlocksPerRun; ++b) {
      const int64_t position = std::clamp(start + b * block_size_, first, last);
      const int32_t id = pool_.BlockOf(*task.segment, position);
      run.keys[b] = pool_.Keys<T>(layer_, id, task.kv_head);
      run.values[b] = pool_.Values<T>(layer_, id, task.kv_head);
    }
    return run;
  }

  Bundle Start(const AttentionTask& task, int64_t index, float* scratch) const {
    Bundle bundle;
    bundle.size = std::min(kBundle, task.count - index * kBundle);
    bundle.head_dim = head_dim_;
    bundle.block_size = block_size_;
    bundle.positions = Padded(block_size_);
    bundle.values = Padded(head_dim_);
    bundle.sums = scratch;
    bundle.weights = bundle.sums + kBundle * bundle.values;
    bundle.q = bundle.weights + kBundle * kBlocksPerRun * bundle.positions;
    bundle.maximum = bundle.q + kBundle * bundle.values;
    bundle.total = bundle.maximum + kMaxFloatLanes;
    std::fill_n(bundle.sums, bundle.size * bundle.values, 0.0f);
    std::fill_n(bundle.maximum, bundle.size, -std::numeric_limits<float>::infinity());
    std::fill_n(bundle.total, bundle.size, 0.0f);
    for (int64_t i = 0; i < bundle.size; ++i) {
      const int64_t query = index * kBundle + i;
      bundle.query_position[i] = Position(task, query);
      const float* from = q_.Row(Row(task, query)) + Column(task, query);
      for (int64_t e = 0; e < head_dim_; ++e) bundle.q[e * bundle.size + i] = from[e];
    }
    return bundle;
  }

  // Adds the run whose first position is `start`.
  void Add(const BlockRuns<T>& runs, int64_t start, const Bundle& bundle) const {
    Seen seen[kBlocksPerRun][kBundle];
    for (int64_t b = 0; b < runs.now.count; ++b) {
      for (int64_t i = 0; i < bundle.size; ++i) {
        seen[b][i] = SeenOf(bundle.query_position[i], start + b * block_size_);
      }
    }
    AddRunToBundle<T>(bundle, runs, options_.scale, seen);
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
  const size_t scratch_size = kQueriesPerTask / kBundle * BundleFloats(pool.spec());
  const auto count = static_cast<int64_t>(tasks.size());
  const int threads = context.pool.num_threads();
  context.pool.ParallelFor(count, [&](int64_t index, int worker) {
    const AttentionTask& next = tasks[std::min(index + threads, count - 1)];
    attention.Run(tasks[index], next, context.scratch.Floats(worker, scratch_size));
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
  context.scratch.Reserve(kQueriesPerTask / kBundle * BundleFloats(pool.spec()));
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
