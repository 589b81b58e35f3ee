// Quantised weights through the whole stack without services, on the embedded model.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/cpu/cpu_backend.h"
#include "services/model/quantize.h"
#include "tests/kernels/testing/test_backend.h"
#include "tests/services/model/model_folder.h"
#include "tests/services/shard/local_pipeline.h"
#include "tests/testing/test_data.h"

namespace sluice::testing {
namespace {

constexpr WeightType kQuantized[] = {WeightType::kInt8, WeightType::kInt4, WeightType::kFp8,
                                     WeightType::kFp8W8A8, WeightType{WeightFormat::kInt8G64}};

std::string Storyteller() { return ProjectPath("models/storyteller"); }

std::vector<float> LogitsOf(const std::string& folder, const PipelineOptions& options,
                            const std::vector<int>& chunks = {24}) {
  auto pipeline = LocalPipeline::Load(folder, options);
  if (!pipeline.ok()) throw std::runtime_error(std::string(pipeline.status().message()));
  std::vector<int32_t> ids(24);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i * 167 % 4096);
  auto logits = (*pipeline)->Logits(ids, chunks);
  if (!logits.ok()) throw std::runtime_error(std::string(logits.status().message()));
  return *std::move(logits);
}

TEST(QuantizedModel, ASavedOneHasTheBitsOfOneQuantizedAtLoad) {
  for (const WeightType type : kQuantized) {
    const TempFolder folder;
    const std::string saved = folder.PathOf("saved");
    const auto written = QuantizeModel(
        {.model = Storyteller(), .out = saved, .format = type.format->weights}, nullptr);
    ASSERT_TRUE(written.ok()) << written.status();
    const std::vector<float> expected = LogitsOf(Storyteller(), {.weights = type});
    // No file asks for inputs of FP8.
    if (type != WeightType::kFp8W8A8) {
      EXPECT_EQ(LogitsOf(saved, {}), expected) << Name(type);
    }
    EXPECT_EQ(LogitsOf(saved, {.num_ranks = 2, .num_stages = 2, .weights = type}), expected)
        << Name(type);
  }
}

TEST(QuantizedModel, RanksStagesChunksAndThreadsDoNotChangeABit) {
  for (const WeightType type : kQuantized) {
    // gpu_model_test has it, by both instructions; here it would take as long as the others together.
    if (type == WeightType::kFp8W8A8 && TestsGpuOnHost()) continue;
    const std::vector<float> expected = LogitsOf(Storyteller(), {.weights = type});
    for (PipelineOptions options :
         {PipelineOptions{.num_ranks = 2}, PipelineOptions{.num_ranks = 4},
          PipelineOptions{.num_ranks = 4, .num_stages = 2}, PipelineOptions{.num_threads = 2}}) {
      options.weights = type;
      EXPECT_EQ(LogitsOf(Storyteller(), options, {1, 5, 11}), expected)
          << Name(type) << ", " << options.num_ranks << " ranks, " << options.num_stages
          << " stages, " << options.num_threads << " threads";
    }
  }
}

// The plain loops multiply the same numbers in another order. An activation that lies between two
// BF16 numbers may then be rounded to the other one, which is why this is not closer.
TEST(QuantizedModel, PlainKernelsAgree) {
  for (const WeightType type : kQuantized) {
    const std::vector<float> logits = LogitsOf(Storyteller(), {.weights = type});
    const std::vector<float> plain =
        LogitsOf(Storyteller(), {.weights = type, .plain_kernels = true});
    double largest = 0;
    double squares = 0;
    for (size_t i = 0; i < logits.size(); ++i) {
      const double error = std::abs(logits[i] - plain[i]);
      largest = std::max(largest, error);
      squares += error * error / static_cast<double>(logits.size());
    }
    // An input that is rounded to the other FP8 number is another by a sixteenth, which a device that
    // has rounded it to BF16 before meets often.
    const double bound = type == WeightType::kFp8W8A8 && TestsRoundOperands() ? 7 : 1;
    EXPECT_LE(largest, 0.2 * bound) << Name(type);
    EXPECT_LE(std::sqrt(squares), 0.02 * bound) << Name(type);
    RecordProperty(Name(type), std::to_string(largest) + " " + std::to_string(std::sqrt(squares)));
  }
}

TEST(QuantizedModel, TakesTheMemoryOfItsFormat) {
  const auto bytes = [](WeightType type) {
    const auto config = LoadModelConfig(Storyteller());
    const auto source = WeightSource::Open(Storyteller(), *config);
    const auto backend = MakeCpuBackend({.num_threads = 1});
    const auto model = ShardModel::Load(*config, *MakeShardPlan(*config, {}), *source,
                                        {.weights = type}, *backend);
    return static_cast<double>((*model)->weight_bytes());
  };
  const double bf16 = bytes(WeightType::kBF16);
  EXPECT_NEAR(bytes(WeightType::kF32) / bf16, 2, 0.02);
  EXPECT_NEAR(bytes(WeightType::kInt8) / bf16, 34.0 / 64, 0.05);
  EXPECT_NEAR(bytes(WeightType::kFp8) / bf16, 34.0 / 64, 0.05);
  EXPECT_NEAR(bytes(WeightType::kInt4) / bf16, 17.5 / 64, 0.05);
}

}  // namespace
}  // namespace sluice::testing
