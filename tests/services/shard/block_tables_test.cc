#include "services/shard/block_tables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

v1::ShardExecute PlanOf(uint64_t sequence, int first_block, const std::vector<int32_t>& blocks) {
  v1::ShardExecute plan;
  v1::Segment& segment = *plan.add_segments();
  segment.set_sequence_id(sequence);
  segment.set_first_block(first_block);
  segment.mutable_blocks()->Add(blocks.begin(), blocks.end());
  return plan;
}

TEST(BlockTables, KeepWhatPlansDoNotChange) {
  BlockTables tables(8);
  ASSERT_TRUE(tables.Update(PlanOf(7, 0, {3, 1})).ok());
  ASSERT_TRUE(tables.Update(PlanOf(8, 0, {5})).ok());
  ASSERT_TRUE(tables.Update(PlanOf(7, 2, {})).ok());
  EXPECT_THAT(tables.TableOf(7), ElementsAre(3, 1));
  ASSERT_TRUE(tables.Update(PlanOf(7, 2, {4})).ok());
  EXPECT_THAT(tables.TableOf(7), ElementsAre(3, 1, 4));
  ASSERT_TRUE(tables.Update(PlanOf(7, 1, {6, 2})).ok());
  EXPECT_THAT(tables.TableOf(7), ElementsAre(3, 6, 2));
  EXPECT_THAT(tables.TableOf(8), ElementsAre(5));
  EXPECT_THAT(tables.TableOf(9), IsEmpty());
}

TEST(BlockTables, DropWhatIsOverBeforeItBeginsAnew) {
  BlockTables tables(8);
  ASSERT_TRUE(tables.Update(PlanOf(7, 0, {3, 1})).ok());
  ASSERT_TRUE(tables.Update(PlanOf(8, 0, {5})).ok());
  v1::ShardExecute plan = PlanOf(7, 0, {2});
  plan.add_ended_sequence_ids(7);
  plan.add_ended_sequence_ids(8);
  plan.add_ended_sequence_ids(99);
  ASSERT_TRUE(tables.Update(plan).ok());
  EXPECT_THAT(tables.TableOf(7), ElementsAre(2));
  EXPECT_EQ(tables.size(), 1u);
}

TEST(BlockTables, RefuseToGoOnAfterBlocksThatTheyLack) {
  BlockTables tables(8);
  ASSERT_TRUE(tables.Update(PlanOf(7, 0, {3, 1})).ok());
  const absl::Status gap = tables.Update(PlanOf(7, 3, {4}));
  EXPECT_EQ(gap.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(gap.message(), "sequence 7 has 2 blocks here; the plan goes on after 3");
  EXPECT_EQ(tables.Update(PlanOf(8, 1, {4})).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(tables.Update(PlanOf(8, -1, {4})).code(), absl::StatusCode::kFailedPrecondition);
}

TEST(BlockTables, RefuseTablesLargerThanThePool) {
  BlockTables tables(3);
  ASSERT_TRUE(tables.Update(PlanOf(7, 0, {0, 1, 2})).ok());
  const absl::Status status = tables.Update(PlanOf(7, 3, {0}));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("4 blocks; the pool has 3"));
}

}  // namespace
}  // namespace sluice
