#include "services/shard/text_passes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "services/shard/relative_bias.h"

namespace sluice::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::vector<int32_t> kTextTable = {7, 3, 9, 4, 5, 8};

ShardSegment SegmentOf(int32_t first, int32_t count, int32_t source_positions) {
  return {.first_position = first,
          .num_positions = count,
          .block_table = kTextTable,
          .source_positions = source_positions};
}

TEST(TextPassesTest, SourceAndTextOfOneSegmentPartAndTheFillIsInNeither) {
  TextPasses passes;
  const std::vector<ShardSegment> segments = {SegmentOf(35, 1, 17), SegmentOf(0, 18, 3)};
  ASSERT_TRUE(CheckTexts(segments, 100, 16).ok());
  PlanTextPasses(segments, 16, &passes);
  EXPECT_FALSE(passes.is_text_alone());
  EXPECT_THAT(passes.source.rows, ElementsAre(1, 2, 3));
  ASSERT_EQ(passes.source.segments.size(), 1U);
  EXPECT_EQ(passes.source.segments[0].num_rows, 3);
  EXPECT_THAT(passes.source.segments[0].block_table, ElementsAre(7));
  EXPECT_THAT(passes.text.rows, ElementsAre(0, 17, 18));
  ASSERT_EQ(passes.text.segments.size(), 2U);
  EXPECT_EQ(passes.text.segments[0].first_position, 3);
  EXPECT_THAT(passes.text.segments[0].block_table, ElementsAre(9, 4, 5, 8));
  EXPECT_EQ(passes.text.sources[0].num_positions, 17);
  EXPECT_THAT(passes.text.sources[0].block_table, ElementsAre(7, 3));
  EXPECT_EQ(passes.text.segments[1].first_position, 0);
  EXPECT_EQ(passes.text.sources[1].first_row, 1);
  // Rows of both passes one after another: sources 0 to 2, texts 3 to 5.
  EXPECT_EQ(passes.places[0], 3);
  EXPECT_EQ(passes.places[2], 1);
  EXPECT_EQ(passes.places[18], 5);
}

TEST(TextPassesTest, TextsAloneStayWhereTheyAre) {
  TextPasses passes;
  PlanTextPasses({SegmentOf(16, 2, 9), SegmentOf(40, 1, 32)}, 8, &passes);
  EXPECT_TRUE(passes.is_text_alone());
  EXPECT_THAT(passes.source.segments, IsEmpty());
  EXPECT_THAT(passes.text.sources[0].block_table, ElementsAre(7, 3));
  EXPECT_THAT(passes.text.sources[1].block_table, ElementsAre(7, 3, 9, 4));
}

TEST(TextPassesTest, ACutSourceIsRefused) {
  const auto message = [](const ShardSegment& segment) {
    return std::string(CheckTexts({&segment, 1}, 100, 16).message());
  };
  EXPECT_THAT(message(SegmentOf(0, 16, 17)), HasSubstr("positions 0 to 15; a source is computed in "
                                                       "one piece, positions 0 to 31"));
  EXPECT_THAT(message(SegmentOf(16, 16, 17)), HasSubstr("one piece"));
  EXPECT_THAT(message(SegmentOf(0, 5, 0)), HasSubstr("source of 0 positions; accepted: 1 to 100"));
  EXPECT_THAT(message(SegmentOf(0, 200, 101)), HasSubstr("accepted: 1 to 100"));
}

// By hand, of 8 buckets up to a distance of 20: with both sides 0, 1, then edges at 2 and 6.3.
TEST(TextPassesTest, BucketsOfDistances) {
  const RelativeSpec relative{.buckets = 8, .max_distance = 20};
  const auto both = [&](int offset) { return BucketOf(offset, relative, BiasSides::kBoth); };
  EXPECT_EQ(both(0), 0);
  EXPECT_EQ(both(-1), 1);
  EXPECT_EQ(both(1), 5);
  EXPECT_EQ(both(-2), 2);
  EXPECT_EQ(both(-6), 2);
  EXPECT_EQ(both(-7), 3);
  EXPECT_EQ(both(500), 7);
  const auto before = [&](int offset) { return BucketOf(offset, relative, BiasSides::kBefore); };
  EXPECT_EQ(before(3), 0);
  EXPECT_EQ(before(-3), 3);
  EXPECT_EQ(before(-4), 4);
  EXPECT_EQ(before(-20), 7);
  // Edges belong to the upper bucket: 16, 32, 64 of 32 buckets up to 128.
  const RelativeSpec t5{.buckets = 32, .max_distance = 128};
  EXPECT_EQ(BucketOf(-16, t5, BiasSides::kBoth), 10);
  EXPECT_EQ(BucketOf(-15, t5, BiasSides::kBoth), 9);
  EXPECT_EQ(BucketOf(-64, t5, BiasSides::kBoth), 14);
  const std::vector<float> table = {1, 10, 2, 20, 3, 30, 4, 40, 5, 50, 6, 60, 7, 70, 8, 80};
  const std::vector<float> values = BiasByDistance(table, 2, relative, BiasSides::kBefore);
  ASSERT_EQ(values.size(), 2U * 41);
  EXPECT_EQ(values[20], 1);
  EXPECT_EQ(values[17], 4);
  EXPECT_EQ(values[41 + 0], 80);
  EXPECT_EQ(values[41 + 40], 10);
}

}  // namespace
}  // namespace sluice::testing
