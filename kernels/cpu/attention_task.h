// The units of work of attention, and how a step is cut into them.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "kernels/attention_splits.h"
#include "kernels/backend.h"

namespace sluice {

// Queries of a segment that are one task, so that every block is read once for all of them: those of
// a few drafted tokens are.
inline constexpr int64_t kMostQueriesOfTask = 96;
// Queries of each task where a segment has more: enough of them for many threads.
inline constexpr int64_t kQueriesPerTask = 48;

// Queries [first, first + count) of one segment and KV head over some splits. Query u is row
// u / group of the segment and head u % group of those that share the KV head. Every block is read
// once for all.
struct AttentionTask {
  const AttentionSegment* segment;
  int kv_head;
  int64_t first;
  int64_t count;
  SplitRange splits;
  // Where the states of its splits lie, one after another, for a merge; counted in states of a
  // task. Below 0 the task has all splits of its queries, and merges them itself.
  int64_t first_state = -1;
};

struct AttentionShape {
  int num_kv_heads;
  int64_t group;   // query heads that share a KV head
  int64_t window;  // AttentionOptions::window
  int num_threads;
  int64_t chunk = 0;  // AttentionOptions::chunk
};

// Tasks in any order, then, once all are done, merges of the states that they left. A member of
// `merges` is a task with all splits, the first of which has first_state.
struct AttentionPlan {
  std::vector<AttentionTask> tasks;
  std::vector<AttentionTask> merges;
  int64_t num_states = 0;
};

// Replaces the plan. Queries whose context is so long that others would wait for the thread that
// has it are cut into one task a split. Borrows the segments.
void PlanAttention(absl::Span<const AttentionSegment> segments, const AttentionShape& shape,
                   AttentionPlan* plan);

// At most so many states, and so many tasks besides one for each KV head of each row, are in any
// plan for contexts of `max_positions`.
int64_t MostAttentionStates(int64_t max_positions, int num_threads);

}  // namespace sluice
