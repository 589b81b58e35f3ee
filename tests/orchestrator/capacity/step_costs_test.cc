#include "orchestrator/capacity/step_costs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "orchestrator/scheduler/step.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

StepCosts Costs() {
  return {.step_seconds = {{1, 0.010}, {11, 0.020}, {21, 0.020}},
          .row_seconds = 0.001,
          .decode_position_seconds = 1e-5,
          .prompt_pair_seconds = 1e-6};
}

TEST(StepCostsTest, LieOnLinesBetweenWhatWasMeasuredAndBeyondIt) {
  StepCosts costs = Costs();
  EXPECT_DOUBLE_EQ(costs.SecondsOf({.positions = 1}), 0.010);
  EXPECT_DOUBLE_EQ(costs.SecondsOf({.positions = 6}), 0.015);
  EXPECT_DOUBLE_EQ(costs.SecondsOf({.positions = 100}), 0.020);
  costs.step_seconds.back().second = 0.030;
  EXPECT_DOUBLE_EQ(costs.SecondsOf({.positions = 31}), 0.040);
  costs.step_seconds = {{8, 0.5}};
  EXPECT_DOUBLE_EQ(costs.SecondsOf({.positions = 1}), 0.5);
  EXPECT_DOUBLE_EQ(costs.SecondsOf({.positions = 100}), 0.5);
}

TEST(StepCostsTest, CountRowsAndWhatAttentionReads) {
  EXPECT_DOUBLE_EQ(
      Costs().SecondsOf({.positions = 1, .rows = 2, .decode_positions = 300, .prompt_pairs = 5000}),
      0.010 + 0.002 + 0.003 + 0.005);
  Step step;
  step.segments.resize(2);
  step.segments[0] = {.first_position = 9, .tokens = {1}, .rows = {Row{}}};
  step.segments[1] = {.first_position = 100, .tokens = {1, 2, 3}};
  const StepLoad load = LoadOfStep(step);
  EXPECT_EQ(load.positions, 4);
  EXPECT_EQ(load.rows, 1);
  EXPECT_EQ(load.decode_positions, 10);  // itself included
  EXPECT_EQ(load.prompt_pairs, 101 + 102 + 103);
}

TEST(StepCostsTest, AreReadBackAsTheyWereWritten) {
  StepCostTable table{.model = "m", .machine = "\"here\"", .costs = {Costs(), Costs()}};
  table.costs[0].kv_blocks = 77;
  table.costs[1].tp = 2;
  table.costs[1].request_seconds = 0.25;
  const absl::StatusOr<StepCostTable> read = ParseStepCosts(FormatStepCosts(table), "file");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(FormatStepCosts(*read), FormatStepCosts(table));
  EXPECT_EQ(read->machine, "\"here\"");
  EXPECT_EQ(read->Of(1, 1)->kv_blocks, 77);
  EXPECT_EQ(read->Of(2, 1)->request_seconds, 0.25);
  EXPECT_EQ(read->Of(1, 2).status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(
      std::string(read->Of(1, 2).status().message()),
      HasSubstr("no costs of --tp 1 --pp 2; there are those of --tp 1 --pp 1, --tp 2 --pp 1"));
}

TEST(StepCostsTest, NameFieldAndValueOfWhatIsMalformed) {
  const auto with = [](const std::string& entry) { return "{\"costs\": [" + entry + "]}"; };
  const std::string good = R"({"step_seconds": [[1, 0.1]]})";
  const struct {
    std::string text, message;
  } cases[] = {
      {"[]", "file: [] is no object with \"costs\""},
      {"{}", "file: costs is missing; accepted: a list of objects"},
      {with(""), "file: costs is []"},
      {with("7"), "file: costs[0] is 7; accepted: an object"},
      {with("{}"),
       "file: costs[0].step_seconds is missing; accepted: a list of [positions, seconds]"},
      {with(R"({"step_seconds": [[2, 0.1], [2, 0.2]]})"), "file: costs[0].step_seconds is "},
      {with(R"({"step_seconds": [[1, -0.1]]})"), "file: costs[0].step_seconds is "},
      {with(R"({"step_seconds": [[1, 0.1]], "row_seconds": -1})"),
       "file: costs[0].row_seconds is -1; accepted: "},
      {with(R"({"step_seconds": [[1, 0.1]], "kv_blocks": 0})"),
       "file: costs[0].kv_blocks is 0; accepted: "},
      {with(good + "," + good), "file: costs[1] is of tp 1 and pp 1, as one before it"},
      {"{\"costs\": [", "file: "},
  };
  for (const auto& [text, message] : cases) {
    const absl::StatusOr<StepCostTable> table = ParseStepCosts(text, "file");
    EXPECT_EQ(table.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(table.status().message()), HasSubstr(message)) << text;
  }
}

}  // namespace
}  // namespace sluice
