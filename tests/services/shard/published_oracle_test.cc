// Models that others quantised through the whole stack without services, against the NumPy oracle,
// which writes and dequantises such files.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/kernels/testing/test_backend.h"
#include "tests/services/shard/local_pipeline.h"
#include "tests/services/shard/oracle_models.h"

namespace sluice::testing {
namespace {

// A model in each layout: PRESET:DTYPE:SHARDS:METHOD, tiny ones, whose groups and runs of inputs
// mostly fit no quantised format, and wide ones, whose do.
const std::vector<std::string> kItems = {
    "llama:BF16:1:awq",
    "llama:BF16:1:gptq",
    "llama:BF16:1:gptq-act_order",
    "llama:BF16:1:ct-int4",
    "llama:BF16:1:ct-int8-channel",
    "llama:BF16:1:ct-w8a8",
    "llama:BF16:1:ct-fp8-tensor",
    "llama:BF16:1:ct-fp8-block",
    "llama:BF16:1:ct-nvfp4",
    "llama:BF16:1:fp8-small_block",
    "llama:BF16:1:bnb-nf4",
    "qwen3:BF16:3:bnb-nf4-nested",
    "qwen3:F16:1:awq@128:wide",
    "qwen2:F16:2:awq@64:wide",
    "llama:F16:1:gptq@128:wide",
    "llama:F16:1:gptq-act_order@32:wide",
    "mistral:F16:1:gptq-2bit@32:wide",
    "mistral:F16:1:gptq-3bit@128:wide",
    "llama:F16:1:gptq-8bit@32:wide",
    "phi3:F16:1:gptq-v2:wide",
    "gemma:BF16:1:ct-int4-asymmetric:wide",
    "llama:BF16:1:ct-mxfp4:wide",
    "gpt_oss:BF16:1:mxfp4",
    "gpt_oss:BF16:2:mxfp4:wide",
    "llama:BF16:1:ct-w8a8:wide",
};

// One where the kernels of GPUs run on the host, which takes seconds for each; GPUs unpack them all
// while they are read.
std::vector<std::string> Items() {
  return TestsGpuOnHost() ? std::vector<std::string>{kItems.front(), kItems.back()} : kItems;
}

std::vector<float> LogitsOf(const OracleModel& model, const PipelineOptions& options,
                            const std::vector<int>& chunks = {512}) {
  auto pipeline = LocalPipeline::Load(model.folder, options);
  if (!pipeline.ok()) throw std::runtime_error(std::string(pipeline.status().message()));
  auto logits = (*pipeline)->Logits(model.ids, chunks);
  if (!logits.ok()) throw std::runtime_error(std::string(logits.status().message()));
  return *std::move(logits);
}

// Of the logits' differences from the oracle's.
struct Differences {
  double largest = 0;
  double root_mean_square = 0;
};

Differences DifferencesOf(const std::vector<float>& logits, const std::vector<double>& expected) {
  if (logits.size() != expected.size()) return {HUGE_VAL, HUGE_VAL};
  Differences found;
  for (size_t i = 0; i < logits.size(); ++i) {
    const double error = std::abs(logits[i] - expected[i]);
    if (!(error <= found.largest)) found.largest = error;  // a NaN shows
    found.root_mean_square += error * error / static_cast<double>(logits.size());
  }
  found.root_mean_square = std::sqrt(found.root_mean_square);
  return found;
}

class PublishedOracleTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string reason = ReasonWithoutOracle(); !reason.empty()) GTEST_SKIP() << reason;
  }
};

TEST_F(PublishedOracleTest, LogitsInF32AreThoseOfTheDequantizedModel) {
  for (const auto& [item, model] : OracleModels(Items())) {
    const auto logits = LogitsOf(model, {.weights = WeightType::kF32, .plain_kernels = true});
    EXPECT_LE(DifferencesOf(logits, model.logits).largest, 3e-4) << item;
  }
}

// The bound of BF16 weights in oracle_test.cc, and twice that in the wide models, whose scores are
// larger: what is multiplied with is rounded to BF16, the weights are not. FP8 rounds its scales,
// too.
TEST_F(PublishedOracleTest, LogitsOfWhatTheFilesHoldAgree) {
  for (const auto& [item, model] : OracleModels(Items())) {
    const Differences found = DifferencesOf(LogitsOf(model, {}), model.logits);
    EXPECT_LE(found.largest, 1.0) << item;
    EXPECT_LE(found.root_mean_square, 0.1) << item;
  }
}

TEST_F(PublishedOracleTest, RanksStagesAndChunksDoNotChangeABit) {
  for (const auto& [item, model] : OracleModels(Items())) {
    const std::vector<float> expected = LogitsOf(model, {});
    for (const PipelineOptions& options :
         {PipelineOptions{.num_ranks = 2}, PipelineOptions{.num_ranks = 4, .num_threads = 2},
          PipelineOptions{.num_ranks = 2, .num_stages = 2}}) {
      EXPECT_EQ(LogitsOf(model, options, {7, 50}), expected)
          << item << ": " << options.num_ranks << " ranks, " << options.num_stages << " stages";
    }
  }
}

}  // namespace
}  // namespace sluice::testing
