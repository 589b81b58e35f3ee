#include "services/sampler/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "absl/strings/str_replace.h"
#include "kernels/dtype.h"
#include "kernels/reference/reference_sampling.h"
#include "services/sampler/philox.h"
#include "tests/kernels/testing/test_backend.h"
#include "tests/services/model/model_folder.h"
#include "tests/testing/test_data.h"

namespace sluice::testing {
namespace {

using ::testing::HasSubstr;

constexpr int kHidden = 16;
constexpr double kEps = 1e-5;

// Replaces a tensor's elements, all of them if `values` is one number.
void Set(OwnedTensor& tensor, std::vector<float> values) {
  const size_t size = tensor.bytes.size() / sizeof(float);
  if (values.size() == 1) values.resize(size, values[0]);
  if (values.size() != size) throw std::runtime_error("wrong number of values");
  std::memcpy(tensor.bytes.data(), values.data(), tensor.bytes.size());
}

std::vector<float> ValuesOf(const OwnedTensor& tensor) {
  std::vector<float> values(tensor.bytes.size() / sizeof(float));
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

// A tiny model whose head can be changed before it is loaded.
class SamplerTest : public ::testing::Test {
 protected:
  OwnedTensor& Tensor(const std::string& name) {
    for (OwnedTensor& tensor : tensors_) {
      if (tensor.name == name) return tensor;
    }
    throw std::runtime_error("no tensor " + name);
  }

  // A new sampler from the tensors as they are now.
  Sampler& Load() {
    folder_.Write("config.json", config_text_);
    folder_.Write("model.safetensors", SafetensorsBytes(tensors_));
    const auto config = LoadModelConfig(folder_.path());
    if (!config.ok()) throw std::runtime_error(std::string(config.status().message()));
    const auto source = WeightSource::Open(folder_.path(), *config);
    if (!source.ok()) throw std::runtime_error(std::string(source.status().message()));
    auto sampler = Sampler::Load(*config, *source, WeightType::kF32, *backend_);
    if (!sampler.ok()) throw std::runtime_error(std::string(sampler.status().message()));
    sampler_ = *std::move(sampler);
    return *sampler_;
  }

  // The tasks on rows [R, H], one for each.
  std::vector<SampledToken> Run(const std::vector<float>& hidden,
                                const std::vector<SamplerTask>& tasks) {
    const auto rows = static_cast<int64_t>(tasks.size());
    auto memory = backend_->Allocate(hidden.size() * sizeof(float));
    if (!memory.ok()) throw std::runtime_error(std::string(memory.status().message()));
    backend_->CopyIn(
        {reinterpret_cast<const std::byte*>(hidden.data()), hidden.size() * sizeof(float)},
        (*memory)->data());
    auto results = sampler_->Run({(*memory)->data(), DType::kF32, rows, kHidden, kHidden}, tasks);
    if (!results.ok()) throw std::runtime_error(std::string(results.status().message()));
    return *std::move(results);
  }

  // Logits of one row in double, of operands as the backend has them.
  std::vector<double> ExpectedLogits(const float* hidden, const std::string& head_name) {
    const std::vector<float> norm = ValuesOf(Tensor("model.norm.weight"));
    const std::vector<float> head = ValuesOf(Tensor(head_name));
    double squares = 0;
    for (int h = 0; h < kHidden; ++h) squares += double{hidden[h]} * hidden[h];
    std::vector<double> logits(head.size() / kHidden);
    for (int h = 0; h < kHidden; ++h) {
      double normed = hidden[h] / std::sqrt(squares / kHidden + kEps) * norm[h];
      if (TestsRoundOperands()) {
        normed = FloatFromBFloat16(BFloat16FromFloat(static_cast<float>(normed)));
      }
      for (size_t id = 0; id < logits.size(); ++id) logits[id] += normed * head[id * kHidden + h];
    }
    return logits;
  }

  std::vector<float> RandomRows(int rows) {
    std::vector<float> hidden(rows * kHidden);
    for (float& value : hidden) value = std::normal_distribution<float>(0, 2)(random_);
    return hidden;
  }

  TempFolder folder_;
  std::string config_text_ = TinyLlamaConfig();
  std::vector<OwnedTensor> tensors_ = TinyLlamaTensors(DType::kF32);
  std::unique_ptr<Backend> backend_ = NewTestBackend();
  std::unique_ptr<Sampler> sampler_;
  std::mt19937 random_{11};
};

std::vector<double> LogSoftmax(const std::vector<double>& logits) {
  double sum = 0;
  for (const double logit : logits) sum += std::exp(logit);
  std::vector<double> result;
  for (const double logit : logits) result.push_back(logit - std::log(sum));
  return result;
}

SamplerTask Greedy(int num_logprobs = 0) {
  static const SamplingOptions& greedy = *new SamplingOptions{.temperature = 0};
  return {.token = SampleRow{.options = &greedy}, .num_logprobs = num_logprobs};
}

TEST_F(SamplerTest, GreedyTakesTheLargestLogitOfNormAndHead) {
  Load();
  const std::vector<float> hidden = RandomRows(20);
  const std::vector<SampledToken> results = Run(hidden, std::vector<SamplerTask>(20, Greedy()));
  for (int row = 0; row < 20; ++row) {
    const auto logits = ExpectedLogits(&hidden[row * kHidden], "lm_head.weight");
    const auto best = std::max_element(logits.begin(), logits.end()) - logits.begin();
    ASSERT_TRUE(results[row].status.ok()) << results[row].status;
    EXPECT_EQ(results[row].token.id, best);
    EXPECT_NEAR(results[row].token.logprob, LogSoftmax(logits)[best], 1e-5);
    EXPECT_TRUE(results[row].top.empty());
  }
}

TEST_F(SamplerTest, TiedModelsUseTheEmbeddingAsTheHead) {
  config_text_ = absl::StrReplaceAll(
      config_text_, {{"\"tie_word_embeddings\": false", "\"tie_word_embeddings\": true"}});
  Load();
  const std::vector<float> hidden = RandomRows(1);
  const auto logprobs = LogSoftmax(ExpectedLogits(hidden.data(), "model.embed_tokens.weight"));
  for (int id = 0; id < 10; ++id) {
    EXPECT_NEAR(Run(hidden, {{.token = TokenToScore{id}}})[0].token.logprob, logprobs[id], 1e-5);
  }
}

TEST_F(SamplerTest, ScoresTheTokenThatIsNamed) {
  Load();
  const std::vector<float> hidden = RandomRows(10);
  std::vector<SamplerTask> tasks;
  for (int id = 0; id < 10; ++id) tasks.push_back({.token = TokenToScore{id}});
  const std::vector<SampledToken> results = Run(hidden, tasks);
  for (int id = 0; id < 10; ++id) {
    const auto logits = ExpectedLogits(&hidden[id * kHidden], "lm_head.weight");
    EXPECT_EQ(results[id].token.id, id);
    EXPECT_NEAR(results[id].token.logprob, LogSoftmax(logits)[id], 1e-5);
  }
}

TEST_F(SamplerTest, PerplexityOfEvenChoicesIsTheirNumber) {
  std::ifstream file(ProjectPath("tests/golden/worked_examples.json"));
  const auto example = nlohmann::json::parse(file).at("perplexity_of_three_bits");
  const int choices = example.at("inputs").at("choices");
  config_text_ = absl::StrReplaceAll(
      config_text_, {{"\"vocab_size\": 10", "\"vocab_size\": " + std::to_string(choices)}});
  for (const char* name : {"model.embed_tokens.weight", "lm_head.weight"}) {
    Tensor(name) = MakeTensor(name, DType::kF32, {static_cast<uint64_t>(choices), kHidden});
  }
  Set(Tensor("lm_head.weight"), {0});
  Load();
  double sum = 0;
  for (int id = 0; id < choices; ++id) {
    sum -= Run(RandomRows(1), {{.token = TokenToScore{id}}})[0].token.logprob;
  }
  EXPECT_NEAR(sum / choices / std::log(2), example.at("expected").at("bits"), 1e-6);
  EXPECT_NEAR(std::exp(sum / choices), example.at("expected").at("perplexity"), 1e-5);
}

TEST_F(SamplerTest, TopTokensFallAndTiesKeepTheLowerIdFirst) {
  // Rows 3 and 6 of the head are alike, and so are 2 and 8.
  std::vector<float> head = ValuesOf(Tensor("lm_head.weight"));
  std::copy_n(head.begin() + 3 * kHidden, kHidden, head.begin() + 6 * kHidden);
  std::copy_n(head.begin() + 2 * kHidden, kHidden, head.begin() + 8 * kHidden);
  Set(Tensor("lm_head.weight"), head);
  Load();
  const std::vector<float> hidden = RandomRows(10);
  std::vector<SamplerTask> tasks;
  for (int row = 0; row < 10; ++row) tasks.push_back(Greedy(row + 1));
  const std::vector<SampledToken> results = Run(hidden, tasks);
  for (int row = 0; row < 10; ++row) {
    const auto logprobs = LogSoftmax(ExpectedLogits(&hidden[row * kHidden], "lm_head.weight"));
    std::vector<int32_t> order(10);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](int a, int b) { return logprobs[a] > logprobs[b]; });
    const std::vector<TokenLogprob>& top = results[row].top;
    ASSERT_EQ(top.size(), static_cast<size_t>(row) + 1);
    EXPECT_EQ(top[0].id, results[row].token.id);
    EXPECT_EQ(top[0].logprob, results[row].token.logprob);
    for (size_t i = 0; i < top.size(); ++i) {
      EXPECT_EQ(top[i].id, order[i]) << "row " << row << " place " << i;
      EXPECT_NEAR(top[i].logprob, logprobs[order[i]], 1e-5);
    }
  }
}

TEST_F(SamplerTest, DrawsByInvertingTheFilteredDistribution) {
  Load();
  const std::vector<float> hidden = RandomRows(1);
  std::vector<float> logits;
  for (const double logit : ExpectedLogits(hidden.data(), "lm_head.weight")) {
    logits.push_back(static_cast<float>(logit));
  }
  const SamplingOptions options{.temperature = 2.5F, .top_k = 7, .top_p = 0.95F, .seed = 1234};
  const int positions = TestsGpuOnHost() ? 10 : 100;  // which takes 50 ms for each
  int different = 0, previous = -1;
  for (int sequence = 0; sequence < 5; ++sequence) {
    for (int position = 0; position < positions; ++position) {
      const SamplerTask task{.token = SampleRowFor(options, sequence, position)};
      const int32_t id = Run(hidden, {task})[0].token.id;
      SampleRow row{.options = &options, .token_uniform = UniformFor(1234, sequence, position)};
      EXPECT_EQ(id, ReferenceSample(logits, row).token.id);
      different += id != previous;
      previous = id;
    }
  }
  EXPECT_GT(different, positions);
}

TEST_F(SamplerTest, NeighboursDoNotChangeARow) {
  Load();
  constexpr int kRows = 600;
  ASSERT_LT(sampler_->tile_rows(), kRows / 2);
  const std::vector<float> hidden = RandomRows(kRows);
  std::vector<SamplingOptions> options;
  for (int t = 0; t < 5; ++t) options.push_back({.temperature = static_cast<float>(t), .seed = 5});
  std::vector<SamplerTask> tasks;
  for (int row = 0; row < kRows; ++row) {
    SamplerTask task{.num_logprobs = row % 4, .processed_logprobs = row % 7 == 0};
    if (row % 3 == 0) {
      task.token = TokenToScore{row % 10};
      task.processed_logprobs = false;
    } else {
      task.token = SampleRowFor(options[row % 5], 0, row);
    }
    tasks.push_back(task);
  }
  const std::vector<SampledToken> together = Run(hidden, tasks);
  ASSERT_EQ(together.size(), static_cast<size_t>(kRows));
  for (int row = 0; row < kRows; ++row) {
    const auto first = hidden.begin() + row * kHidden;
    const SampledToken alone = Run({first, first + kHidden}, {tasks[row]})[0];
    EXPECT_EQ(together[row].token.id, alone.token.id);
    EXPECT_EQ(together[row].token.logprob, alone.token.logprob);
    ASSERT_EQ(together[row].top.size(), alone.top.size());
    for (size_t i = 0; i < alone.top.size(); ++i) {
      EXPECT_EQ(together[row].top[i].id, alone.top[i].id);
      EXPECT_EQ(together[row].top[i].logprob, alone.top[i].logprob);
    }
  }
}

TEST_F(SamplerTest, RowsThatAreNotFiniteFailAlone) {
  Load();
  std::vector<float> hidden = RandomRows(300);
  hidden[1 * kHidden + 3] = std::numeric_limits<float>::quiet_NaN();
  hidden[290 * kHidden] = std::numeric_limits<float>::infinity();
  const SamplingOptions options{.temperature = 1, .top_p = 0.9F};
  const std::vector<SamplerTask> tasks(
      300, {.token = SampleRow{.options = &options}, .num_logprobs = 3});
  const std::vector<SampledToken> results = Run(hidden, tasks);
  for (int row = 0; row < 300; ++row) {
    const SampledToken& result = results[row];
    if (row == 1 || row == 290) {
      EXPECT_EQ(result.status.code(), absl::StatusCode::kInternal);
      EXPECT_THAT(result.status.message(),
                  HasSubstr("row " + std::to_string(row) + ": the logit of token 0 is "));
      EXPECT_TRUE(result.top.empty());
    } else {
      EXPECT_TRUE(result.status.ok()) << result.status;
      EXPECT_TRUE(std::isfinite(result.token.logprob));
      EXPECT_EQ(result.top.size(), 3u);
    }
  }
}

TEST_F(SamplerTest, TasksOutOfRangeFailAlone) {
  Load();
  const std::vector<SampledToken> results =
      Run(RandomRows(5), {Greedy(),
                          {.token = TokenToScore{10}},
                          {.token = TokenToScore{-1}},
                          Greedy(11),
                          {.refusal = absl::InvalidArgumentError("top_k is -1")}});
  EXPECT_TRUE(results[0].status.ok());
  const auto expect_refused = [&](int row, const std::string& message) {
    EXPECT_EQ(results[row].status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(results[row].status.message(), message);
  };
  expect_refused(1, "row 1: score_token_id is 10; accepted: 0 to 9");
  expect_refused(2, "row 2: score_token_id is -1; accepted: 0 to 9");
  expect_refused(3, "row 3: num_logprobs is 11; accepted: 0 to 10");
  expect_refused(4, "row 4: top_k is -1");
}

TEST_F(SamplerTest, ProcessedLogprobsAreThoseOfTheDistributionDrawnFrom) {
  Load();
  const std::vector<float> hidden = RandomRows(1);
  std::vector<float> logits;
  for (const double logit : ExpectedLogits(hidden.data(), "lm_head.weight")) {
    logits.push_back(static_cast<float>(logit));
  }
  const SamplingOptions options{.temperature = 1.5F, .top_k = 4};
  SamplerTask task{
      .token = SampleRowFor(options, 0, 3), .num_logprobs = 6, .processed_logprobs = true};
  const SampledToken result = Run(hidden, {task})[0];
  const auto expected = ReferenceDistribution(logits, {.options = &options});
  ASSERT_EQ(result.top.size(), 4u);  // no more are left
  double total = 0;
  for (const TokenLogprob& token : result.top) {
    const auto same = std::find_if(expected.begin(), expected.end(),
                                   [&](const auto& e) { return e.id == token.id; });
    ASSERT_NE(same, expected.end());
    EXPECT_NEAR(token.logprob, std::log(same->probability), 1e-5);
    if (token.id == result.token.id) {
      EXPECT_EQ(token.logprob, result.token.logprob);
    }
    total += std::exp(token.logprob);
  }
  EXPECT_NEAR(total, 1, 1e-5);
}

TEST_F(SamplerTest, OptionsThatForbidEveryTokenFailTheirRow) {
  Load();
  const SamplingOptions options;
  const std::vector<uint32_t> nothing = {0};
  const std::vector<SampledToken> results =
      Run(RandomRows(2), {{.token = SampleRow{.options = &options, .allowed = nothing}}, Greedy()});
  EXPECT_EQ(results[0].status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(results[1].status.ok());
}

TEST_F(SamplerTest, NoRowsGiveNoResults) {
  Load();
  EXPECT_TRUE(Run({}, {}).empty());
}

}  // namespace
}  // namespace sluice::testing
