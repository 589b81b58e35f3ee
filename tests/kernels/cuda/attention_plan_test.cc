#include "kernels/cuda/attention_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <tuple>
#include <vector>

namespace sluice::cuda {
namespace {

struct Step {
  std::vector<AttentionSegment> segments;
  std::vector<std::vector<int32_t>> tables;
};

Step RandomStep(std::mt19937& random) {
  const auto draw = [&](int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(random);
  };
  Step step;
  int64_t row = draw(0, 2);
  for (int64_t i = draw(1, 5); i > 0; --i) {
    const int64_t rows = draw(0, 2) == 0 ? draw(2, 90) : 1, first = draw(0, 3000);
    step.segments.push_back({.first_row = row, .num_rows = rows, .first_position = first});
    step.tables.emplace_back((first + rows + 15) / 16);
    row += rows + draw(0, 1);
  }
  for (size_t i = 0; i < step.segments.size(); ++i) step.segments[i].block_table = step.tables[i];
  return step;
}

// Every packed row is in the tiles, with every split that it sees anything of, once; and in a merge
// exactly where its splits are in tiles of their own, one after another.
void ExpectComplete(const Step& step, const AttentionShape& shape, const AttentionPlan& plan) {
  std::map<std::tuple<int64_t, int64_t>, std::vector<std::tuple<int64_t, int64_t>>> found;
  const auto look = [&](const std::vector<AttentionTile>& tiles, int most) {
    for (const AttentionTile& tile : tiles) {
      EXPECT_LE(tile.num_packed, most);
      for (int64_t p = tile.first_packed; p < tile.first_packed + tile.num_packed; ++p) {
        for (int64_t split = tile.split_begin; split < tile.split_end; ++split) {
          const int64_t partial = tile.partial_begin < 0
                                      ? -1
                                      : tile.partial_begin +
                                            (split - tile.split_begin) * tile.num_packed + p -
                                            tile.first_packed;
          found[{tile.first_row, p}].emplace_back(split, partial);
        }
      }
    }
  };
  look(plan.decode, shape.decode_tile_rows);
  look(plan.prefill, shape.tile_rows);
  std::map<std::tuple<int64_t, int64_t>, std::vector<int64_t>> merged;
  for (const MergeTile& merge : plan.merges) {
    for (int64_t r = 0; r < merge.num_packed; ++r) {
      for (int64_t split = 0; split < merge.num_splits; ++split) {
        merged[{merge.first_row, merge.first_packed + r}].push_back(merge.partial_begin +
                                                                    split * merge.num_packed + r);
      }
    }
  }
  std::set<int64_t> partials;
  int64_t expected_rows = 0;
  for (const AttentionSegment& segment : step.segments) {
    for (int64_t p = 0; p < segment.num_rows * shape.group; ++p, ++expected_rows) {
      auto& splits = found[{segment.first_row, p}];
      std::sort(splits.begin(), splits.end());
      const int64_t position = segment.first_position + p / shape.group;
      const SplitRange seen = SplitsOf(position, position, shape.window, kGpuAttentionSplit);
      ASSERT_FALSE(splits.empty());
      EXPECT_LE(std::get<0>(splits.front()), seen.begin);
      EXPECT_GE(std::get<0>(splits.back()) + 1, seen.end);
      std::vector<int64_t> own;
      for (size_t i = 0; i < splits.size(); ++i) {
        EXPECT_EQ(std::get<0>(splits[i]), std::get<0>(splits[0]) + static_cast<int64_t>(i));
        const int64_t partial = std::get<1>(splits[i]);
        if (partial < 0) continue;
        EXPECT_TRUE(partials.insert(partial).second);
        EXPECT_LT(partial, plan.num_partials);
        own.push_back(partial);
      }
      EXPECT_EQ((merged[{segment.first_row, p}]), own);
    }
  }
  EXPECT_EQ(found.size(), static_cast<size_t>(expected_rows));
}

TEST(AttentionPlan, SharesOutEveryRowAndSplitOnce) {
  std::mt19937 random(1);
  AttentionPlan plan;
  for (int i = 0; i < 300; ++i) {
    const Step step = RandomStep(random);
    const AttentionShape shape{.group = i % 5 == 0 ? 41 : 1 + i % 8,
                               .window = i % 3 == 0 ? 700 : 0,
                               .num_kv_heads = 1 + i % 4};
    for (const int64_t target : {1, 16, 1000}) {
      PlanAttention(step.segments, shape, {.decode_blocks = target, .prefill_blocks = target},
                    plan);
      ExpectComplete(step, shape, plan);
    }
  }
}

// Every row of every merge, once, and no block of threads with more than one row above another.
TEST(AttentionPlan, MergesAreBalancedOverBlocks) {
  constexpr int kBlocks = 396, kKvHeads = 8;
  for (const int64_t positions : {1024, 8192}) {
    const std::vector<int32_t> table(positions / 16);
    for (size_t sequences = 1; sequences <= 256; ++sequences) {
      const std::vector<AttentionSegment> segments(
          sequences, {.num_rows = 1, .first_position = positions - 1, .block_table = table});
      AttentionPlan plan;
      PlanAttention(segments, {.group = 4, .num_kv_heads = kKvHeads}, {.decode_blocks = kBlocks},
                    plan);
      const auto num_tiles = static_cast<int>(plan.merges.size());
      const int num_rows = NumMergeRows(plan.merges.data(), num_tiles, kKvHeads);
      std::set<std::tuple<int, int, int>> merged;
      std::vector<int> rows_of(kBlocks);
      for (int block = 0; block < kBlocks; ++block) {
        for (int index = block; index < num_rows; index += kBlocks) {
          const MergeRow row = MergeRowAt(plan.merges.data(), num_tiles, kKvHeads, index);
          ASSERT_LT(row.packed, plan.merges[row.tile].num_packed);
          ASSERT_TRUE(merged.emplace(row.tile, row.packed, row.kv_head).second);
          ++rows_of[block];
        }
      }
      size_t expected = 0;
      for (const MergeTile& tile : plan.merges) expected += tile.num_packed * kKvHeads;
      EXPECT_EQ(merged.size(), expected);
      const auto [least, most] = std::minmax_element(rows_of.begin(), rows_of.end());
      EXPECT_LE(*most, *least + 1) << sequences << " sequences of " << positions;
    }
  }
}

TEST(AttentionPlan, OneLongSequenceIsSharedOutBySplits) {
  const std::vector<int32_t> table(8192 / 16);
  const AttentionSegment segment{.num_rows = 1, .first_position = 8191, .block_table = table};
  AttentionPlan plan;
  PlanAttention({&segment, 1}, {.group = 4, .num_kv_heads = 8}, {.decode_blocks = 264}, plan);
  EXPECT_EQ(plan.decode.size(), 8192u / kGpuAttentionSplit);
  EXPECT_EQ(plan.merges.size(), 1u);
  EXPECT_TRUE(plan.prefill.empty());
}

// A step that nearly fills the device is not cut finer than it takes for all blocks to end together.
TEST(AttentionPlan, ManyLongSequencesAreCutAsFarAsBalanceTakes) {
  const std::vector<int32_t> table(8192 / 16);
  const std::vector<AttentionSegment> segments(
      32, {.num_rows = 1, .first_position = 8191, .block_table = table});
  AttentionPlan plan;
  PlanAttention(segments, {.group = 4, .num_kv_heads = 8}, {.decode_blocks = 396}, plan);
  const auto blocks = static_cast<int64_t>(plan.decode.size()) * 8;
  EXPECT_GE(blocks, 8 * 396);
  EXPECT_LE(blocks, 32 * 396);
  EXPECT_GT(plan.decode[0].split_end, plan.decode[0].split_begin + 1);
  EXPECT_EQ(plan.num_partials, 32 * 4 * (8192 / kGpuAttentionSplit));
}

// 400 tiles would keep 396 blocks for two rounds.
TEST(AttentionPlan, ARoundOfFewIsSharedOutAmongAll) {
  const std::vector<int32_t> table(1024 / 16);
  const auto tiles_of = [&](size_t sequences) {
    const std::vector<AttentionSegment> segments(
        sequences, {.num_rows = 1, .first_position = 1023, .block_table = table});
    AttentionPlan plan;
    PlanAttention(segments, {.group = 4, .num_kv_heads = 8}, {.decode_blocks = 396}, plan);
    return plan.decode.size();
  };
  EXPECT_EQ(tiles_of(50), 50u * 4);
  EXPECT_EQ(tiles_of(64), 64u * 4);
  EXPECT_EQ(tiles_of(49), 49u);  // 392
  EXPECT_EQ(tiles_of(98), 98u);
  EXPECT_EQ(tiles_of(500), 500u);
}

// 512 rows fill a GPU of 132 multiprocessors with two such blocks each but for a few, and would leave
// a gigabyte of partial results.
TEST(AttentionPlan, PrefillThatNearlyFillsTheDeviceIsNotCut) {
  const std::vector<int32_t> table(32768 / 16);
  const AttentionSegment chunk{
      .num_rows = 512, .first_position = 32768 - 512, .block_table = table};
  const AttentionSegment decode{
      .first_row = 512, .num_rows = 1, .first_position = 8191, .block_table = table};
  const std::vector<AttentionSegment> segments = {chunk, decode};
  AttentionPlan plan;
  PlanAttention(segments, {.group = 4, .num_kv_heads = 8},
                {.decode_blocks = 396, .prefill_blocks = 264}, plan);
  EXPECT_EQ(plan.prefill.size(), 512u * 4 / 64);
  // Beside it a decode step's position is cut as ever.
  EXPECT_EQ(plan.decode.size(), 8192u / kGpuAttentionSplit);
  EXPECT_EQ(plan.num_partials, 4 * 8192 / kGpuAttentionSplit);
}

TEST(AttentionPlan, ShortPrefillIsCutWhereItsPartialsHaveRoom) {
  const std::vector<int32_t> table(32768 / 16);
  const AttentionSegment chunk{.num_rows = 64, .first_position = 32768 - 64, .block_table = table};
  const AttentionShape shape{.group = 4, .num_kv_heads = 8};
  AttentionRoom room{.prefill_blocks = 264};
  AttentionPlan plan;
  PlanAttention({&chunk, 1}, shape, room, plan);
  EXPECT_GE(static_cast<int64_t>(plan.prefill.size()) * 8, 264);
  EXPECT_EQ(plan.num_partials, 64 * 4 * 32768 / kGpuAttentionSplit);
  room.most_prefill_partials = plan.num_partials * 8;
  PlanAttention({&chunk, 1}, shape, room, plan);
  EXPECT_GT(plan.num_partials, 0);
  --room.most_prefill_partials;
  PlanAttention({&chunk, 1}, shape, room, plan);
  EXPECT_EQ(plan.num_partials, 0);
  EXPECT_EQ(plan.prefill.size(), 64u * 4 / 64);
}

}  // namespace
}  // namespace sluice::cuda
