// Adapters of every family against the NumPy oracle, which merges them into the weights; and the
// promise that they change nobody else's bits.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/adapter_ops.h"
#include "tests/kernels/testing/test_backend.h"
#include "tests/services/shard/local_pipeline.h"
#include "tests/services/shard/oracle_models.h"

namespace sluice::testing {
namespace {

using FloatLogits = std::vector<float>;

// Adapters of all matrices of the layers, a preset for each way that files and layers have them.
const std::vector<std::string> kAdapted = {
    "llama:F32:1:::all",
    "llama-bias:BF16:1:::rslora",
    "llama:F32:1:::patterns",
    "llama:F32:1:::attention",
    "llama:F32:1:::ends",
    "llama:BF16:1:::saved",
    "llama-tied:F32:1:::all",
    "qwen3:F32:1:::all",
    // Fused in files: stacked, by head, stored transposed.
    "phi3:F32:1:::all",
    "gpt2:F32:1:::transposed",
    "gpt2:F32:1:::all",
    "gpt_neox:F32:1:::all",
    "internlm2:F32:1:::all",
    "glm4:F32:1:::all",
    // Without gates; parallel branches; norms and constants behind branches.
    "sluice-learned-layernorm-gelu:F32:1:::all",
    "phi:F32:1:::all",
    "cohere2:F32:1:::all",
    "gemma2:F32:1:::all",
    "gemma3:F32:1:::all",
    "granite:F32:1:::all",
    "olmo2:F32:1:::all",
    // Experts, routers, shared experts; stacks have no modules.
    "mixtral:F32:1:::all",
    "qwen2_moe:F32:1:::all",
    "qwen3_moe:F32:1:::all",
    "olmoe:F32:1:::all",
    "ernie4_5_moe:F32:1:::all",
    "glm4_moe:F32:1:::all",
    "gpt_oss:F32:1:::all",
    "llama4:F32:1:::all",
    "gemma4-moe:F32:1:::all",
    // Latent attention, recurrent layers, embeddings for each layer.
    "deepseek_v2:F32:1:::all",
    "deepseek_v3:F32:1:::all",
    "qwen3_5:F32:1:::all",
    "qwen3_5_moe:F32:1:::all",
    "granite4:F32:1:::all",
    "nemotron_h:F32:1:::all",
    "gemma4-sides:F32:1:::all",
};

// On what others have quantised.
const std::vector<std::string> kAdaptedQuantized = {
    "llama:F16:1:awq@32:wide:all",
    "qwen3:F16:1:gptq@32:wide:all",
};

std::unique_ptr<LocalPipeline> LoadAdapted(const OracleModel& model,
                                           const PipelineOptions& options) {
  auto pipeline = LocalPipeline::Load(model.folder, options);
  if (!pipeline.ok()) throw std::runtime_error(std::string(pipeline.status().message()));
  for (int slot = 0; slot < 2; ++slot) {
    const std::string folder = model.folder + (slot == 0 ? "/adapter" : "/adapter2");
    const absl::Status loaded = (*pipeline)->LoadAdapter(slot, folder);
    if (!loaded.ok()) throw std::runtime_error(std::string(loaded.message()));
  }
  return *std::move(pipeline);
}

FloatLogits AdaptedLogitsOf(LocalPipeline& pipeline, const OracleModel& model, int slot,
                            int chunk = 512) {
  pipeline.UseAdapter(slot);
  auto logits = pipeline.Logits(model.ids, {chunk});
  if (!logits.ok()) throw std::runtime_error(std::string(logits.status().message()));
  return *std::move(logits);
}

double LargestAdaptedError(const FloatLogits& logits, const std::vector<double>& expected) {
  if (logits.size() != expected.size()) return HUGE_VAL;
  double largest = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    const double error = std::abs(logits[i] - expected[i]);
    if (!(error <= largest)) largest = error;  // a NaN shows
  }
  return largest;
}

bool EqualBits(const FloatLogits& a, const FloatLogits& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

class AdapterOracleTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string reason = ReasonWithoutOracle(); !reason.empty()) GTEST_SKIP() << reason;
    if (NewTestBackend({})->adapters() == nullptr) GTEST_SKIP() << "computes no adapters";
  }

  static void ExpectAgreement(const std::vector<std::string>& items, double bound,
                              const PipelineOptions& options) {
    for (const auto& [item, model] : OracleModels(items)) {
      SCOPED_TRACE(item);
      const auto pipeline = LoadAdapted(model, options);
      EXPECT_LE(LargestAdaptedError(AdaptedLogitsOf(*pipeline, model, 0), model.adapted_logits),
                bound);
      EXPECT_LE(LargestAdaptedError(AdaptedLogitsOf(*pipeline, model, 1), model.adapted2_logits),
                bound);
      EXPECT_LE(LargestAdaptedError(AdaptedLogitsOf(*pipeline, model, -1), model.logits), bound);
      // They differ by far more than the bound, or nothing is shown.
      EXPECT_GT(LargestAdaptedError(AdaptedLogitsOf(*pipeline, model, 0), model.logits), 0.1);
    }
  }
};

constexpr double kAdapterBound = 2e-4;

TEST_F(AdapterOracleTest, LogitsOfAdaptedModelsAgree) {
  ExpectAgreement(kAdapted, kAdapterBound, {.weights = WeightType::kF32});
}

TEST_F(AdapterOracleTest, LogitsOfPlainKernelsAgree) {
  ExpectAgreement(kAdapted, kAdapterBound, {.weights = WeightType::kF32, .plain_kernels = true});
}

TEST_F(AdapterOracleTest, LogitsOnQuantizedModelsAgree) {
  ExpectAgreement(kAdaptedQuantized, kAdapterBound, {.weights = WeightType::kF32});
}

// Alone and whole on one rank, against rows of three sequences side by side, the third without an
// adapter, cut into chunks, with slots the other way round, and on two ranks and two stages.
TEST_F(AdapterOracleTest, BitsDependOnTheSequenceAndItsAdapterAlone) {
  for (const auto& [item, model] : OracleModels(kAdapted)) {
    SCOPED_TRACE(item);
    const auto pipeline = LoadAdapted(model, {.weights = WeightType::kF32});
    const int64_t vocab = pipeline->config().vocab_size;
    std::vector<FloatLogits> alone;
    for (const int slot : {0, 1, -1}) alone.push_back(AdaptedLogitsOf(*pipeline, model, slot));
    EXPECT_TRUE(EqualBits(AdaptedLogitsOf(*pipeline, model, 0, 7), alone[0]));
    const auto ids = std::vector<int32_t>(model.ids.begin(), model.ids.begin() + 40);
    for (const bool is_cut : {false, true}) {
      const PipelineOptions options{.num_ranks = is_cut ? 2 : 1,
                                    .num_stages = is_cut ? 2 : 1,
                                    .weights = WeightType::kF32,
                                    .num_threads = is_cut ? 1 : 2,
                                    .num_blocks = 256};
      auto together = LocalPipeline::Load(model.folder, options);
      if (!together.ok() && is_cut) continue;  // a model that ranks or stages cannot share
      ASSERT_TRUE(together.ok()) << together.status();
      ASSERT_TRUE((*together)->LoadAdapter(5, model.folder + "/adapter").ok());
      ASSERT_TRUE((*together)->LoadAdapter(2, model.folder + "/adapter2").ok());
      std::vector<PipelineSegment> segments;
      for (int sequence = 0; sequence < 3; ++sequence) {
        std::vector<int32_t> blocks(40);
        std::iota(blocks.begin(), blocks.end(), 40 * sequence);
        segments.push_back({.ids = ids,
                            .block_table = blocks,
                            .sequence_length = static_cast<int32_t>(model.ids.size()),
                            .adapter_slot = std::vector<int>{5, 2, -1}[sequence]});
      }
      const auto logits = (*together)->Step(segments);
      ASSERT_TRUE(logits.ok()) << logits.status();
      for (int sequence = 0; sequence < 3; ++sequence) {
        const int64_t count = 40 * vocab;
        const FloatLogits own(logits->begin() + sequence * count,
                              logits->begin() + (sequence + 1) * count);
        const FloatLogits expected(alone[sequence].begin(), alone[sequence].begin() + count);
        EXPECT_TRUE(EqualBits(own, expected)) << "sequence " << sequence << ", cut " << is_cut;
      }
    }
  }
}

TEST_F(AdapterOracleTest, EmptySlotsAreNamed) {
  const auto models = OracleModels({"llama:F32:1:::all"});
  const auto pipeline = LoadAdapted(models.begin()->second, {});
  pipeline->UseAdapter(7);
  const auto logits = pipeline->Logits({1, 2, 3}, {3});
  EXPECT_EQ(logits.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(logits.status().message()), ::testing::HasSubstr("slot 7"));
}

TEST_F(AdapterOracleTest, AdaptersOfOtherModelsAreRefusedByName) {
  const auto models = OracleModels({"llama:F32:1:::all", "gpt2:F32:1:::all"});
  const auto pipeline = LoadAdapted(models.at("llama:F32:1:::all"), {});
  const absl::Status refused =
      pipeline->LoadAdapter(0, models.at("gpt2:F32:1:::all").folder + "/adapter");
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), ::testing::HasSubstr("no matrix of this model"));
}

}  // namespace
}  // namespace sluice::testing
