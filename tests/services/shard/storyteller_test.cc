// The embedded model, from token ids to logits, against figures that the NumPy oracle computed from
// it (tests/golden/make_goldens.py storyteller).

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/kernels/testing/test_backend.h"
#include "tests/services/shard/local_pipeline.h"
#include "tests/testing/test_data.h"

namespace sluice::testing {
namespace {

using Json = nlohmann::json;

// On logits of standard deviation 2; they grow together.
double Tolerance() { return TestsRoundOperands() ? 0.05 : 1e-4; }

class StorytellerTest : public ::testing::Test {
 protected:
  StorytellerTest() {
    std::ifstream file(ProjectPath("tests/golden/storyteller.json"));
    golden_ = Json::parse(file);
    ids_ = golden_.at("ids").get<std::vector<int32_t>>();
  }

  std::vector<float> Logits(const PipelineOptions& options, const std::vector<int>& chunks) {
    auto pipeline = LocalPipeline::Load(ProjectPath("models/storyteller"), options);
    if (!pipeline.ok()) throw std::runtime_error(std::string(pipeline.status().message()));
    vocab_ = (*pipeline)->config().vocab_size;
    auto logits = (*pipeline)->Logits(ids_, chunks);
    if (!logits.ok()) throw std::runtime_error(std::string(logits.status().message()));
    return *std::move(logits);
  }

  // Largest error of a logit of row t.
  double ToleranceOf(size_t t) const {
    return Tolerance() * std::max(1.0, golden_.at("standard_deviations")[t].get<double>() / 2);
  }

  Json golden_;
  std::vector<int32_t> ids_;
  int vocab_ = 0;
};

TEST_F(StorytellerTest, LogitsAgreeWithTheOracle) {
  const std::vector<float> logits =
      Logits({.weights = WeightType::kF32}, {static_cast<int>(ids_.size())});
  double nll = 0;
  for (size_t t = 0; t < ids_.size(); ++t) {
    SCOPED_TRACE(t);
    const std::vector<float> row(logits.begin() + t * vocab_, logits.begin() + (t + 1) * vocab_);
    const auto best = std::max_element(row.begin(), row.end());
    EXPECT_NEAR(*best, golden_.at("best_logits")[t], ToleranceOf(t));
    if (golden_.at("gaps")[t] > 2 * ToleranceOf(t)) {
      EXPECT_EQ(best - row.begin(), golden_.at("best_ids")[t]);
    }
    for (size_t i = 0; i < golden_.at("probe_ids").size(); ++i) {
      EXPECT_NEAR(row[golden_["probe_ids"][i].get<size_t>()], golden_["probe_logits"][t][i],
                  ToleranceOf(t));
    }
    if (t + 1 == ids_.size()) break;
    double sum = 0;
    for (const float logit : row) sum += std::exp(static_cast<double>(logit));
    const double logprob = row[ids_[t + 1]] - std::log(sum);
    EXPECT_NEAR(logprob, golden_.at("logprobs")[t], 2 * ToleranceOf(t));
    nll -= logprob / static_cast<double>(ids_.size() - 1);
  }
  EXPECT_NEAR(std::exp(nll) / golden_.at("perplexity").get<double>(), 1, Tolerance());
}

// Perplexity of the text, as a ratio to the oracle's.
TEST_F(StorytellerTest, FewerBitsCostLittle) {
  const std::vector<std::pair<PipelineOptions, double>> bounds = {
      {{.weights = WeightType::kF32, .kv_dtype = DType::kBF16}, 0.01},
      {{.weights = WeightType::kBF16}, 0.01},
      {{.weights = WeightType::kInt8}, 0.02},
      {{.weights = WeightType::kInt4}, 0.05},
      {{.weights = WeightType::kFp8}, 0.03},
      {{.weights = WeightType::kFp8W8A8}, 0.05},
      {{.weights = WeightType::kF32, .kv_dtype = DType::kF8E4M3}, 0.03}};
  for (const auto& [options, bound] : bounds) {
    const std::vector<float> logits = Logits(options, {static_cast<int>(ids_.size())});
    double nll = 0;
    for (size_t t = 0; t + 1 < ids_.size(); ++t) {
      double sum = 0;
      for (int v = 0; v < vocab_; ++v) sum += std::exp(double{logits[t * vocab_ + v]});
      nll += std::log(sum) - logits[t * vocab_ + ids_[t + 1]];
    }
    const double perplexity = std::exp(nll / static_cast<double>(ids_.size() - 1));
    const double ratio = perplexity / golden_.at("perplexity").get<double>();
    EXPECT_NEAR(ratio, 1, bound) << Name(options.weights);
    RecordProperty(Name(options.weights), std::to_string(ratio));
  }
}

TEST_F(StorytellerTest, RanksStagesAndChunksDoNotChangeABit) {
  const std::vector<float> expected = Logits({}, {static_cast<int>(ids_.size())});
  for (const PipelineOptions& options :
       {PipelineOptions{}, PipelineOptions{.num_ranks = 2}, PipelineOptions{.num_ranks = 4},
        PipelineOptions{.num_stages = 2}, PipelineOptions{.num_ranks = 4, .num_stages = 2},
        PipelineOptions{.num_threads = 2}}) {
    EXPECT_EQ(Logits(options, {1, 5, 11}), expected)
        << options.num_ranks << " ranks, " << options.num_stages << " stages, "
        << options.num_threads << " threads";
  }
}

}  // namespace
}  // namespace sluice::testing
