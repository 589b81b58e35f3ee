#include "kernels/cpu/attention_task.h"

#include <algorithm>

#include "absl/functional/function_ref.h"
#include "kernels/cpu/open_attention.h"

namespace sluice {
namespace {

// A task longer than this part of a thread's share of the step is cut.
constexpr int64_t kTasksPerThread = 4;

// Tasks of about one size, so that threads that have one each finish together.
int64_t QueriesOfTask(int64_t queries) {
  if (queries <= kMostQueriesOfTask) return queries;
  const int64_t tasks = (queries + kQueriesPerTask - 1) / kQueriesPerTask;
  return (queries + tasks - 1) / tasks;
}

// Every task with all its splits.
void ForEachWholeTask(absl::Span<const AttentionSegment> segments, const AttentionShape& shape,
                      int64_t ahead, absl::FunctionRef<void(const AttentionTask&)> use) {
  for (const AttentionSegment& segment : segments) {
    const int64_t queries = segment.num_rows * shape.group;
    const int64_t step = QueriesOfTask(queries);
    for (int head = 0; head < shape.num_kv_heads; ++head) {
      for (int64_t first = 0; first < queries; first += step) {
        const int64_t count = std::min(step, queries - first);
        const int64_t first_row = first / shape.group;
        const int64_t last_row = (first + count - 1) / shape.group;
        use({.segment = &segment,
             .kv_head = head,
             .first = first,
             .count = count,
             .splits = SplitsFrom(
                 FirstSeenPosition(segment.first_position + first_row, shape.window, shape.chunk),
                 LastSeenPosition(segment.first_position + last_row, ahead,
                                  segment.first_position + segment.num_rows - 1))});
      }
    }
  }
}

void AddCut(AttentionTask whole, AttentionPlan* plan) {
  whole.first_state = plan->num_states;
  plan->merges.push_back(whole);
  for (int64_t split = whole.splits.begin; split < whole.splits.end; ++split) {
    AttentionTask part = whole;
    part.splits = {split, split + 1};
    part.first_state = plan->num_states++;
    plan->tasks.push_back(part);
  }
}

}  // namespace

void PlanAttention(absl::Span<const AttentionSegment> segments, const AttentionShape& shape,
                   AttentionPlan* plan) {
  PlanOpenAttention(segments, shape, /*ahead=*/0, plan);
}

void PlanOpenAttention(absl::Span<const AttentionSegment> segments, const AttentionShape& shape,
                       int64_t ahead, AttentionPlan* plan) {
  plan->tasks.clear();
  plan->merges.clear();
  plan->num_states = 0;
  int64_t total = 0;  // splits of all tasks
  ForEachWholeTask(segments, shape, ahead,
                   [&](const AttentionTask& task) { total += task.splits.size(); });
  const int64_t parts = kTasksPerThread * shape.num_threads;
  ForEachWholeTask(segments, shape, ahead, [&](const AttentionTask& task) {
    const bool is_long = task.splits.size() > 1 && task.splits.size() * parts > total;
    if (is_long && shape.num_threads > 1) {
      AddCut(task, plan);
    } else {
      plan->tasks.push_back(task);
    }
  });
}

// Fewer than `parts` tasks can each be longer than total / parts.
int64_t MostAttentionStates(int64_t max_positions, int num_threads) {
  if (num_threads == 1) return 0;
  const int64_t most_splits = (max_positions + kAttentionSplit - 1) / kAttentionSplit;
  return kTasksPerThread * num_threads * most_splits;
}

}  // namespace sluice
