// Whole models by the kernels of GPUs, on the host: what they compute, and that steps of one bucket,
// which are recorded and enqueued again, give a token the same bits however it came about.
#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/kernels/testing/gpu_on_host.h"
#include "tests/services/model/model_folder.h"
#include "tests/services/shard/local_pipeline.h"
#include "tests/testing/test_data.h"

namespace sluice::testing {
namespace {

using Logits = std::vector<float>;

// H 16, 4 heads of 4, 2 KV heads, MLP 24, 3 layers, a bias on every projection.
class GpuModelTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!HasGpuOnHost()) GTEST_SKIP() << "this build lacks the kernels of GPUs on the host";
    folder_.Write("config.json", TinyLlamaConfig());
    folder_.Write("model.safetensors", SafetensorsBytes(TinyLlamaTensors(DType::kF32)));
  }

  std::unique_ptr<LocalPipeline> Load(const PipelineOptions& options) {
    auto pipeline = LocalPipeline::Load(folder_.path(), options);
    if (!pipeline.ok()) throw std::runtime_error(std::string(pipeline.status().message()));
    return *std::move(pipeline);
  }

  TempFolder folder_;
  const std::vector<int32_t> ids_ = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4};
};

TEST_F(GpuModelTest, AgreesWithPlainKernelsThatRoundAlike) {
  for (const WeightType weights : {WeightType::kF32, WeightType::kBF16}) {
    for (const DType kv_dtype : {DType::kF32, DType::kBF16, DType::kF8E4M3}) {
      PipelineOptions options{.weights = weights, .kv_dtype = kv_dtype, .gpu_kernels = true};
      const auto actual = Load(options)->Logits(ids_, {20});
      options.gpu_kernels = false;
      options.plain_kernels = true;
      options.plain_operands = DType::kBF16;
      const auto expected = Load(options)->Logits(ids_, {20});
      ASSERT_TRUE(actual.ok() && expected.ok()) << actual.status() << expected.status();
      ASSERT_EQ(actual->size(), expected->size());
      for (size_t i = 0; i < actual->size(); ++i) {
        // A last bit that falls otherwise before a rounding to BF16 is 2^-8 of a number there.
        EXPECT_NEAR((*actual)[i], (*expected)[i], 0.02) << i;
      }
    }
  }
}

TEST_F(GpuModelTest, EveryChunkingGivesTheSameBits) {
  for (const WeightType weights : {WeightType::kF32, WeightType::kBF16}) {
    const PipelineOptions options{.weights = weights, .gpu_kernels = true};
    const auto pipeline = Load(options);
    const auto whole = pipeline->Logits(ids_, {20});
    ASSERT_TRUE(whole.ok()) << whole.status();
    // Chunks of one token are recorded on the second and enqueued from the third on.
    for (const std::vector<int>& chunks : std::vector<std::vector<int>>{{1}, {7, 3, 2}, {4}}) {
      const auto logits = pipeline->Logits(ids_, chunks);
      ASSERT_TRUE(logits.ok()) << logits.status();
      EXPECT_EQ(*logits, *whole) << "chunks of " << chunks[0];
    }
  }
}

// By the instruction that multiplies FP8 numbers, and by BF16 ones that have their values.
TEST_F(GpuModelTest, Fp8ActivationsHaveTheSameBitsOnEveryWayThroughAPipeline) {
  const std::string folder = ProjectPath("models/storyteller");
  std::vector<int32_t> ids(20);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i * 167 % 4096);
  const auto logits_of = [&](const PipelineOptions& options, const std::vector<int>& chunks) {
    const auto pipeline = LocalPipeline::Load(folder, options);
    if (!pipeline.ok()) throw std::runtime_error(std::string(pipeline.status().message()));
    auto logits = (*pipeline)->Logits(ids, chunks);
    if (!logits.ok()) throw std::runtime_error(std::string(logits.status().message()));
    return *std::move(logits);
  };
  const Logits near = logits_of(
      {.weights = WeightType::kFp8W8A8, .plain_kernels = true, .plain_operands = DType::kBF16},
      {20});
  for (const GpuProducts products : {GpuProducts::kPortable, GpuProducts::kFp8}) {
    PipelineOptions options{
        .weights = WeightType::kFp8W8A8, .gpu_kernels = true, .gpu_products = products};
    const Logits whole = logits_of(options, {20});
    options.num_ranks = 4;
    EXPECT_EQ(logits_of(options, {1, 13, 3}), whole);
    double squares = 0;
    for (size_t i = 0; i < whole.size(); ++i) squares += std::pow(whole[i] - near[i], 2);
    // An input that is rounded to the next FP8 number is another by a sixteenth.
    EXPECT_LE(std::sqrt(squares / static_cast<double>(whole.size())), 0.1);
  }
}

TEST_F(GpuModelTest, RecordedStepsOfOtherSequencesDoNotMixUp) {
  const auto mixed = Load({.gpu_kernels = true});
  const std::vector<int32_t> table = {3, 1}, other = {0, 2};
  const std::vector<PipelineSegment> prompt = {{{1, 2, 3, 4, 5}, 0, table}};
  for (int32_t length = 1; length <= 6; ++length) {
    const auto alone = Load({.gpu_kernels = true});
    const PipelineSegment next{{length % 10, 7, 3}, 5, table};
    ASSERT_TRUE(alone->Step(prompt).ok());
    const auto expected = alone->Step({&next, 1});
    ASSERT_TRUE(mixed->Step(prompt).ok());
    const PipelineSegment beside{std::vector<int32_t>(length % 4 + 1, 9), 0, other};
    ASSERT_TRUE(mixed->Step({&beside, 1}).ok());
    const auto seen = mixed->Step({&next, 1});
    ASSERT_TRUE(expected.ok() && seen.ok());
    EXPECT_EQ(*seen, *expected) << length;
  }
}

// Steps of as many rows that differ in what is launched for them: tiles of few rows, of many, both.
TEST_F(GpuModelTest, StepsOfOneBucketWithOtherPartsDoNotMixUp) {
  const std::vector<int32_t> table = {3, 1}, other = {0, 2};
  const auto ids = [](int count, int first) {
    std::vector<int32_t> ids;
    for (int i = 0; i < count; ++i) ids.push_back((first + 3 * i) % 10);
    return ids;
  };
  const std::vector<std::vector<PipelineSegment>> steps = {
      {{ids(14, 4), 0, table}, {ids(2, 5), 0, other}},  // 28 packed rows and 4
      {{ids(8, 1), 0, table}, {ids(8, 2), 0, other}},   // 16 each
      {{ids(16, 3), 0, table}},                         // 32
  };
  const auto mixed = Load({.gpu_kernels = true});
  for (int round = 0; round < 4; ++round) {
    for (const std::vector<PipelineSegment>& step : steps) {
      const auto expected = Load({.gpu_kernels = true})->Step(step);
      const auto seen = mixed->Step(step);
      ASSERT_TRUE(expected.ok() && seen.ok()) << expected.status() << seen.status();
      EXPECT_EQ(*seen, *expected) << round;
    }
  }
}

}  // namespace
}  // namespace sluice::testing
