// What `sluice bench --fit` makes of measurements.
#include "clients/cli/bench_fit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "services/model/json_fields.h"
#include "tests/clients/cli/fake_pipeline.h"
#include "tests/services/model/model_folder.h"

namespace sluice::testing {
namespace {

using ::testing::HasSubstr;

constexpr FitOptions kFit = {.max_positions = 4096, .max_step_tokens = 512};

double StepSeconds(double positions) { return 0.002 + 2e-5 * positions; }

// What clients see of a pipeline whose steps cost this.
FitMeasurements MeasuredOf(double row, double decode, double pair, double request) {
  FitMeasurements measured;
  const auto prefill = [&](double tokens) {
    return request + StepSeconds(tokens) + row + pair * tokens * (tokens + 1) / 2;
  };
  for (const int32_t tokens : {1, 2, 8, 32, 64, 128, 512}) {
    measured.prefills.push_back({.tokens = tokens, .seconds = prefill(tokens)});
  }
  measured.long_ones.push_back(
      {.tokens = 1024,
       .seconds = prefill(512) + StepSeconds(512) + row + pair * 512 * (512 + 256.5)});
  for (const int32_t streams : {1, 2, 8, 32, 64}) {
    measured.decodes.push_back({.streams = streams,
                                .context = 30,
                                .seconds = StepSeconds(streams) + streams * (row + decode * 30)});
  }
  measured.long_decode.push_back(
      {.streams = 8, .context = 2000, .seconds = StepSeconds(8) + 8 * (row + decode * 2000)});
  return measured;
}

TEST(BenchFitTest, FindsTheCostsThatClientsSaw) {
  const StepCosts costs = SolveCosts(MeasuredOf(1e-4, 3e-8, 4e-9, 0.005), kFit);
  EXPECT_NEAR(costs.row_seconds, 1e-4, 2e-6);
  EXPECT_NEAR(costs.decode_position_seconds, 3e-8, 1e-10);
  EXPECT_NEAR(costs.prompt_pair_seconds, 4e-9, 2e-10);
  EXPECT_NEAR(costs.request_seconds, 0.005, 2e-5);
  for (const double positions : {1.0, 8.0, 40.0, 64.0, 300.0, 512.0}) {
    EXPECT_NEAR(costs.SecondsOf({.positions = positions}), StepSeconds(positions),
                0.02 * StepSeconds(positions))
        << positions;
  }
}

TEST(BenchFitTest, CountsTheStreamsThatAStageOfAPipelineHas) {
  FitMeasurements measured = MeasuredOf(0, 0, 0, 0.005);
  for (FitMeasurements::Decode& decode : measured.decodes) decode.streams *= 2;
  FitOptions options = kFit;
  options.num_stages = 2;
  const StepCosts costs = SolveCosts(measured, options);
  EXPECT_NEAR(costs.SecondsOf({.positions = 32}), StepSeconds(32), 0.02 * StepSeconds(32));
}

TEST(BenchFitTest, NoiseMakesNoCostNegativeAndNoLargerStepCheaper) {
  FitMeasurements measured = MeasuredOf(0, 0, 0, 0);
  measured.long_decode.front().seconds = 0;
  measured.long_ones.front().seconds = 0;
  measured.prefills.front().seconds = 0;
  measured.decodes[2].seconds = 0.001;
  const StepCosts costs = SolveCosts(measured, kFit);
  EXPECT_EQ(costs.decode_position_seconds, 0);
  EXPECT_EQ(costs.prompt_pair_seconds, 0);
  EXPECT_EQ(costs.request_seconds, 0);
  EXPECT_GE(costs.row_seconds, 0);
  double before = 0;
  for (const auto& [positions, seconds] : costs.step_seconds) {
    EXPECT_GE(seconds, before);
    before = seconds;
  }
}

TEST(BenchFitTest, KeepsOtherArrangementsInTheFileAndNotThoseOfOtherMachines) {
  const TempFolder folder;
  const std::string path = folder.path() + "/costs.json";
  StepCosts costs{.step_seconds = {{1, 0.5}}};
  EXPECT_TRUE(UpdateCostFile(path, "m", "here", costs).ok());
  costs.tp = 2;
  EXPECT_TRUE(UpdateCostFile(path, "m", "here", costs).ok());
  costs.row_seconds = 0.25;
  EXPECT_TRUE(UpdateCostFile(path, "m", "here", costs).ok());
  absl::StatusOr<StepCostTable> table = ParseStepCosts(*ReadTextFile(path), path);
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->costs.size(), 2u);
  EXPECT_EQ(table->Of(2, 1)->row_seconds, 0.25);
  EXPECT_TRUE(UpdateCostFile(path, "m", "there", costs).ok());
  table = ParseStepCosts(*ReadTextFile(path), path);
  EXPECT_EQ(table->costs.size(), 1u);
  EXPECT_EQ(table->machine, "there");
  folder.Write("costs.json", "[]");
  EXPECT_THAT(std::string(UpdateCostFile(path, "m", "here", costs).message()),
              HasSubstr("is no object with \"costs\""));
  EXPECT_THAT(std::string(UpdateCostFile("/nowhere/costs", "m", "here", costs).message()),
              HasSubstr("--fit: /nowhere/costs cannot be written"));
}

TEST(BenchFitTest, MeasuresAPipelineAndWritesWhatSimulateReads) {
  FakeAnswers answers = DefaultAnswers();
  answers.model.set_max_positions(64);
  answers.generate = [](const v1::GenerateRequest& request, const WriteEvent& write) {
    for (int i = 0; i < request.max_tokens(); ++i) write(TextEvent(0, "x", {1}));
    write(FinishedEvent(1, request.max_tokens()));
    return absl::OkStatus();
  };
  FakePipeline pipeline(answers);
  const TempFolder folder;
  const std::string path = folder.path() + "/costs.json";
  FakeEnvironment fake;
  EXPECT_EQ(fake.Run({"bench", "--endpoint", pipeline.endpoint(), "--fit", path, "--rounds", "1"}),
            0)
      << fake.err.str();
  FakeEnvironment simulate;
  EXPECT_EQ(simulate.Run({"simulate", "--costs", path, "--arrivals", "poisson:10", "--kv_blocks",
                          "1000", "--prompt_tokens", "8", "--max_tokens", "4"}),
            0)
      << simulate.err.str();
  FakeEnvironment both;
  EXPECT_EQ(both.Run({"bench", "--fit", path, "--phases", "decode:1"}), 2);
  EXPECT_THAT(both.err.str(), HasSubstr("--fit puts loads of its own on the pipeline"));
}

}  // namespace
}  // namespace sluice::testing
