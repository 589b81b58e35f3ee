#include "kernels/cpu/attention_task.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <tuple>
#include <vector>

namespace sluice {
namespace {

// A query of a segment, and a split.
using Part = std::tuple<const AttentionSegment*, int, int64_t, int64_t>;

// Every split that a query sees is in exactly one task, and a cut query in one merge.
void ExpectComplete(const std::vector<AttentionSegment>& segments, const AttentionShape& shape,
                    const AttentionPlan& plan) {
  std::map<Part, int> parts;
  for (const AttentionTask& task : plan.tasks) {
    ASSERT_GE(task.count, 1);
    ASSERT_LE(task.count, kMostQueriesOfTask);
    for (int64_t query = task.first; query < task.first + task.count; ++query) {
      for (int64_t split = task.splits.begin; split < task.splits.end; ++split) {
        ++parts[{task.segment, task.kv_head, query, split}];
      }
    }
  }
  for (const AttentionSegment& segment : segments) {
    for (int head = 0; head < shape.num_kv_heads; ++head) {
      for (int64_t query = 0; query < segment.num_rows * shape.group; ++query) {
        const int64_t position = segment.first_position + query / shape.group;
        const SplitRange seen = SplitsOf(position, position, shape.window);
        for (int64_t split = seen.begin; split < seen.end; ++split) {
          EXPECT_EQ((parts[{&segment, head, query, split}]), 1)
              << "query " << query << ", split " << split;
        }
      }
    }
  }
}

// States are used once each, and in the order of a merge's splits.
void ExpectMerged(const AttentionPlan& plan) {
  std::map<int64_t, const AttentionTask*> by_state;
  for (const AttentionTask& task : plan.tasks) {
    if (task.first_state < 0) continue;
    EXPECT_TRUE(by_state.emplace(task.first_state, &task).second);
    EXPECT_LT(task.first_state, plan.num_states);
  }
  size_t merged = 0;
  for (const AttentionTask& merge : plan.merges) {
    for (int64_t i = 0; i < merge.splits.size(); ++i, ++merged) {
      ASSERT_EQ(by_state.count(merge.first_state + i), 1u);
      const AttentionTask& part = *by_state[merge.first_state + i];
      EXPECT_EQ(part.splits.begin, merge.splits.begin + i);
      EXPECT_EQ(std::tie(part.segment, part.kv_head, part.first, part.count),
                std::tie(merge.segment, merge.kv_head, merge.first, merge.count));
    }
  }
  EXPECT_EQ(merged, by_state.size());
}

TEST(AttentionSplits, BeginAtPositionZeroWhateverTheWindow) {
  EXPECT_EQ(SplitsOf(0, 0, 0).begin, 0);
  EXPECT_EQ(SplitsOf(0, 0, 0).end, 1);
  EXPECT_EQ(SplitsOf(511, 511, 0).end, 1);
  EXPECT_EQ(SplitsOf(512, 512, 0).end, 2);
  EXPECT_EQ(SplitsOf(1024, 1030, 512).begin, 1);
  EXPECT_EQ(SplitsOf(1022, 1030, 512).begin, 0);
  EXPECT_EQ(SplitsOf(1023, 1023, 512).size(), 1);
}

TEST(PlanAttention, CoversEveryQueryAndSplitOnce) {
  const std::vector<AttentionSegment> segments = {{0, 1, 0},      {1, 1, 32767}, {2, 45, 1000},
                                                  {47, 300, 400}, {347, 1, 511}, {348, 1, 512}};
  for (const int num_threads : {1, 2, 8, 64}) {
    for (const int64_t window : {0, 1, 512, 5000}) {
      for (const int64_t group : {1, 3, 41}) {
        const AttentionShape shape{2, group, window, num_threads};
        AttentionPlan plan;
        PlanAttention(segments, shape, &plan);
        ExpectComplete(segments, shape, plan);
        ExpectMerged(plan);
        EXPECT_LE(plan.num_states, MostAttentionStates(32768, num_threads));
      }
    }
  }
}

TEST(PlanAttention, OneLongSequenceIsWorkForAllThreads) {
  const std::vector<AttentionSegment> decode = {{0, 1, 32767}};
  AttentionPlan plan;
  PlanAttention(decode, {.num_kv_heads = 1, .group = 3, .window = 0, .num_threads = 8}, &plan);
  EXPECT_EQ(plan.tasks.size(), 64u);
  EXPECT_EQ(plan.merges.size(), 1u);
}

// However many rows are drafted, keys and values are read once.
TEST(PlanAttention, DraftsAreOneTaskOfEachSplit) {
  const std::vector<AttentionSegment> drafts = {{0, 9, 16384 - 9}};
  AttentionPlan plan;
  PlanAttention(drafts, {.num_kv_heads = 2, .group = 8, .window = 0, .num_threads = 2}, &plan);
  EXPECT_EQ(plan.tasks.size(), 2u * 32);
  for (const AttentionTask& task : plan.tasks) EXPECT_EQ(task.count, 9 * 8);
}

TEST(PlanAttention, ALongSequenceAmongShortOnesIsCutAlone) {
  std::vector<AttentionSegment> decode(15, AttentionSegment{0, 1, 100});
  decode.push_back({0, 1, 16383});
  AttentionPlan plan;
  PlanAttention(decode, {.num_kv_heads = 4, .group = 2, .window = 0, .num_threads = 2}, &plan);
  EXPECT_EQ(plan.merges.size(), 4u);
  EXPECT_EQ(plan.tasks.size(), 15u * 4 + 4 * 32);
}

TEST(PlanAttention, NothingIsCutWhereQueriesAreManyOrThreadsOne) {
  const std::vector<AttentionSegment> prefill = {{0, 512, 8192}};
  AttentionPlan plan;
  PlanAttention(prefill, {.num_kv_heads = 5, .group = 3, .window = 0, .num_threads = 4}, &plan);
  EXPECT_TRUE(plan.merges.empty());
  EXPECT_EQ(plan.num_states, 0);
  const std::vector<AttentionSegment> decode = {{0, 1, 32767}};
  PlanAttention(decode, {.num_kv_heads = 1, .group = 1, .window = 0, .num_threads = 1}, &plan);
  EXPECT_EQ(plan.tasks.size(), 1u);
  EXPECT_TRUE(plan.merges.empty());
}

// What is set aside while loading is enough for the worst step.
TEST(PlanAttention, StatesHaveABound) {
  for (const int num_threads : {2, 16}) {
    for (int sequences = 1; sequences < 200; sequences += 7) {
      const std::vector<AttentionSegment> decode(sequences, AttentionSegment{0, 1, 131071});
      AttentionPlan plan;
      PlanAttention(
          decode, {.num_kv_heads = 1, .group = 1, .window = 0, .num_threads = num_threads}, &plan);
      EXPECT_LE(plan.num_states, MostAttentionStates(131072, num_threads));
      EXPECT_LE(plan.tasks.size(), sequences + MostAttentionStates(131072, num_threads));
    }
  }
}

}  // namespace
}  // namespace sluice
