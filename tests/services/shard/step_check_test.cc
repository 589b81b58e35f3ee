#include "services/shard/step_check.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

constexpr StepLimits kLimits{
    .max_rows = 32, .max_positions = 40, .block_size = 16, .num_blocks = 4};

const std::vector<int32_t> kTable = {3, 0, 2};

void ExpectRefused(const std::vector<ShardSegment>& segments, int64_t rows,
                   const std::string& message) {
  const absl::Status status = CheckStep(segments, rows, kLimits);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), message);
}

TEST(StepCheckTest, AcceptsWhatFits) {
  EXPECT_TRUE(CheckStep({}, 0, kLimits).ok());
  const std::vector<ShardSegment> segments = {
      {0, 16, absl::MakeSpan(kTable).first(1)},    // fills its block
      {39, 1, kTable},                             // the last position
      {3, 2, kTable},                              // more blocks than it needs
      {20, 13, absl::MakeSpan(kTable).first(3)}};  // up to position 32
  EXPECT_TRUE(CheckStep(segments, 32, kLimits).ok());
}

TEST(StepCheckTest, RefusesBlocksOutsideThePool) {
  const std::vector<int32_t> above = {0, 7}, below = {-1};
  ExpectRefused({{0, 1, kTable}, {0, 17, above}}, 18, "segment 1: block 7 is outside a pool of 4");
  ExpectRefused({{0, 1, below}}, 1, "segment 0: block -1 is outside a pool of 4");
}

TEST(StepCheckTest, RefusesCopiesOutsideThePool) {
  const std::vector<KvBlockCopy> fitting = {{0, 3}, {3, 3}};
  EXPECT_TRUE(CheckCopies({}, 4).ok());
  EXPECT_TRUE(CheckCopies(fitting, 4).ok());
  const auto expect_refused = [](const KvBlockCopy& copy, const std::string& message) {
    const std::vector<KvBlockCopy> copies = {{0, 1}, copy};
    const absl::Status status = CheckCopies(copies, 4);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(status.message(), message);
  };
  expect_refused({4, 0}, "block copy 1: block 4 is outside a pool of 4");
  expect_refused({0, -1}, "block copy 1: block -1 is outside a pool of 4");
}

TEST(StepCheckTest, RefusesSlotsForStatesThatAreMissingOrOutsideThePool) {
  StepLimits limits = kLimits;
  limits.num_state_slots = 2;
  const auto message = [&](const std::vector<int32_t>& slots) {
    const ShardSegment segment{.first_position = 16,
                               .num_positions = 17,  // goes on from the first run, to the third
                               .block_table = kTable,
                               .state_slots = slots};
    return std::string(CheckStep({&segment, 1}, 17, limits).message());
  };
  EXPECT_EQ(message({0, 1, 1}), "");
  EXPECT_EQ(message({0, 1}), "segment 0: it has 2 state_slots; its positions need 3");
  EXPECT_EQ(message({0, 1, 2}), "segment 0: state slot 2 is outside a pool of 2");
  const std::vector<KvBlockCopy> copies = {{1, 2}};
  EXPECT_EQ(CheckStateCopies(copies, 2).message(),
            "state slot copy 0: state slot 2 is outside a pool of 2");
}

TEST(StepCheckTest, RefusesShortBlockTables) {
  ExpectRefused(
      {{0, 17, absl::MakeSpan(kTable).first(1)}}, 17,
      "segment 0: its block table has 1 blocks of 16 positions; positions up to 16 need 2");
  ExpectRefused(
      {{0, 1, {}}}, 1,
      "segment 0: its block table has 0 blocks of 16 positions; positions up to 0 need 1");
}

TEST(StepCheckTest, RefusesPositionsBeyondTheModel) {
  ExpectRefused({{38, 3, kTable}}, 3,
                "segment 0: positions 38 to 40; accepted for this model: 0 to 39");
  ExpectRefused({{-1, 3, kTable}}, 3,
                "segment 0: positions -1 to 1; accepted for this model: 0 to 39");
  ExpectRefused({{2147483647, 2147483647, kTable}}, 3,
                "segment 0: positions 2147483647 to 4294967293; accepted for this model: 0 to 39");
}

TEST(StepCheckTest, RefusesLengthsThatItsPositionsExceed) {
  const std::vector<ShardSegment> fitting = {{4, 3, kTable, 7}, {0, 1, kTable, 40}, {0, 1, kTable}};
  EXPECT_TRUE(CheckStep(fitting, 5, kLimits).ok());
  for (const int32_t length : {6, -1, 41}) {
    ExpectRefused({{4, 3, kTable, length}}, 3,
                  absl::StrCat("segment 0: sequence_length is ", length,
                               "; accepted: 0, or 7, where its positions end, to 40"));
  }
}

TEST(StepCheckTest, RefusesRowsThatDoNotFit) {
  ExpectRefused({{0, 0, kTable}}, 0, "segment 0: num_positions is 0; accepted: 1 or more");
  ExpectRefused({{0, 5, kTable}, {0, 6, kTable}}, 12,
                "the segments have 11 positions, the activations 12 rows");
  ExpectRefused({{0, 33, kTable}}, 33, "a step of 33 rows; accepted: at most 32");
}

}  // namespace
}  // namespace sluice
