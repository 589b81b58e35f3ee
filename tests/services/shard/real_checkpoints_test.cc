// Real checkpoints, from token ids to logits and greedy continuations, against the figures that
// other programs computed from them.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/services/shard/local_pipeline.h"
#include "tests/testing/test_data.h"

namespace sluice::testing {
namespace {

using Json = nlohmann::json;

// Their references computed in F32 too: 2e-5 from float64, on logits of up to 20.
constexpr double kTolerance = 1e-4;
// Where the two best logits are closer than both errors together, either may win.
constexpr double kFairGap = 2 * kTolerance;

Json ReadJson(const std::string& name) {
  std::ifstream file(TestData(name).value());
  return Json::parse(file);
}

// A model below SLUICE_TESTDATA that is fed one sequence.
class Model {
 public:
  explicit Model(const std::string& name, const PipelineOptions& options = {}) {
    auto pipeline = LocalPipeline::Load(TestData(name).value(), options);
    if (!pipeline.ok()) throw std::runtime_error(std::string(pipeline.status().message()));
    pipeline_ = *std::move(pipeline);
  }

  int vocab_size() const { return pipeline_->config().vocab_size; }

  // Begins a new sequence; logits [ids.size(), V].
  std::vector<float> Prefill(const std::vector<int32_t>& ids) {
    length_ = 0;
    return Feed(ids);
  }

  // Logits after one more token.
  std::vector<float> Append(int32_t id) { return Feed({id}); }

 private:
  std::vector<float> Feed(const std::vector<int32_t>& ids) {
    PipelineSegment segment{ids, length_, {}};
    length_ += static_cast<int32_t>(ids.size());
    for (int32_t block = 0; block * 16 < length_; ++block) segment.block_table.push_back(block);
    auto logits = pipeline_->Step({&segment, 1});
    if (!logits.ok()) throw std::runtime_error(std::string(logits.status().message()));
    return *std::move(logits);
  }

  std::unique_ptr<LocalPipeline> pipeline_;
  int32_t length_ = 0;
};

std::vector<float> LastRow(const std::vector<float>& logits, int vocab) {
  return {logits.end() - vocab, logits.end()};
}

void ExpectNear(const std::vector<float>& actual, const std::vector<double>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_NEAR(actual[i], expected[i], kTolerance) << "element " << i;
  }
}

// The ids, and after each step the natural logarithms of its ten best probabilities.
void ExpectTopTen(const std::vector<float>& row, const Json& top_ten) {
  double sum = 0;
  for (const float logit : row) sum += std::exp(static_cast<double>(logit));
  for (const Json& entry : top_ten) {  // [id, logit, logprob]
    const float logit = row.at(entry[0].get<size_t>());
    EXPECT_NEAR(logit, entry[1].get<double>(), kTolerance);
    EXPECT_NEAR(logit - std::log(sum), entry[2].get<double>(), kTolerance);
  }
}

// Follows the reference for as long as its choices are clear; returns how many steps that was.
int FollowGreedily(Model& model, std::vector<float> row, const Json& test) {
  const auto ids = test.at("greedy_ids").get<std::vector<int32_t>>();
  const auto gaps = test.at("top2_gap_per_step").get<std::vector<double>>();
  int steps = 0;
  for (size_t step = 0; step < ids.size(); ++step, ++steps) {
    if (gaps.at(step) < kFairGap) break;
    const auto best = std::max_element(row.begin(), row.end()) - row.begin();
    EXPECT_EQ(best, ids[step]) << "step " << step << ", gap " << gaps[step];
    if (best != ids[step]) break;
    row = model.Append(ids[step]);
  }
  return steps;
}

void ExpectGolden(const std::string& name) {
  const Json golden = ReadJson(name + "/golden.json");
  Model model(name);
  int steps = 0, longest = 0;
  for (const Json& test : golden.at("cases")) {
    SCOPED_TRACE(test.at("prompt").get<std::string>());
    const std::vector<float> logits = model.Prefill(test.at("ids").get<std::vector<int32_t>>());
    const std::vector<float> row = LastRow(logits, model.vocab_size());
    ExpectNear(row, test.at("last_logits_runc_f32").get<std::vector<double>>());
    ExpectTopTen(row, test.at("top10"));
    if (const Json& all = test.at("all_logits_runc_f32"); !all.is_null()) {
      std::vector<double> expected;
      for (const Json& position : all) {
        for (const Json& logit : position) expected.push_back(logit.get<double>());
      }
      ExpectNear(logits, expected);
    }
    steps += FollowGreedily(model, row, test);
    longest += static_cast<int>(test.at("greedy_ids").size());
  }
  // Few steps are too close to call.
  EXPECT_GT(steps, longest * 8 / 10);
}

TEST(RealCheckpointsTest, Stories260KContinuesAsItsReference) {
  SLUICE_SKIP_WITHOUT("models/stories260K");
  ExpectGolden("models/stories260K");
}

TEST(RealCheckpointsTest, TinyStories656KContinuesAsItsReference) {
  SLUICE_SKIP_WITHOUT("models/tinystories-656k");
  ExpectGolden("models/tinystories-656k");
}

// Small random models with the logits of Hugging Face's transformers, whole sequences at once.
class ThirdPartyTest : public ::testing::TestWithParam<std::string> {};

TEST_P(ThirdPartyTest, GivesTheLogitsOfTransformers) {
  const std::string folder = "models/third_party/" + GetParam();
  SLUICE_SKIP_WITHOUT(folder);
  const Json golden = ReadJson(folder + "/logits.json");
  const int num_heads = LoadModelConfig(TestData(folder).value())->num_heads;
  for (const int num_ranks : {1, 2}) {
    if (num_heads % num_ranks != 0) continue;
    Model model(folder, {.num_ranks = num_ranks});
    ASSERT_GT(golden.at("sequences").size(), 0u);
    for (size_t i = 0; i < golden.at("sequences").size(); ++i) {
      std::vector<double> expected;
      for (const Json& row : golden.at("logits")[i]) {
        for (const Json& logit : row) expected.push_back(logit.get<double>());
      }
      ExpectNear(model.Prefill(golden["sequences"][i].get<std::vector<int32_t>>()), expected);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, ThirdPartyTest,
                         ::testing::Values("llama", "mistral", "qwen2", "phi3", "gemma", "gpt2",
                                           "gptneox"));

TEST(RealCheckpointsTest, ThirdPartyQwen3GivesTheLogitsOfTransformers) {
  constexpr char kFolder[] = "models/third_party/qwen3";
  SLUICE_SKIP_WITHOUT(kFolder);
  const Json cases = ReadJson(std::string(kFolder) + "/golden.json").at("cases");
  for (const int num_ranks : {1, 4}) {
    Model model(kFolder, {.num_ranks = num_ranks});
    for (const char* name : {"full_b1", "full_b2"}) {
      const auto expected = cases.at(name).at("logits").get<std::vector<double>>();
      std::vector<float> actual;
      for (const Json& ids : cases.at(name).at("input_ids")) {
        const auto logits = model.Prefill(ids.get<std::vector<int32_t>>());
        actual.insert(actual.end(), logits.begin(), logits.end());
      }
      ExpectNear(actual, expected);
    }
  }
}

TEST(RealCheckpointsTest, TinyRandomGpt2ContinuesAsItsReference) {
  constexpr char kFolder[] = "models/tiny-random-gpt2";
  SLUICE_SKIP_WITHOUT(kFolder);
  const Json golden = ReadJson(std::string(kFolder) + "/golden.json");
  Model model(kFolder, {.num_ranks = 2});
  ASSERT_GT(golden.at("cases").size(), 0u);
  for (const Json& test : golden.at("cases")) {
    SCOPED_TRACE(test.at("prompt").get<std::string>());
    const std::vector<float> logits = model.Prefill(test.at("ids").get<std::vector<int32_t>>());
    ExpectNear(LastRow(logits, model.vocab_size()),
               test.at("last_logits_f64").get<std::vector<double>>());
    if (const Json& all = test.at("all_logits_f64"); !all.is_null()) {
      std::vector<double> expected;
      for (const Json& position : all) {
        for (const Json& logit : position) expected.push_back(logit.get<double>());
      }
      ExpectNear(logits, expected);
    }
    ASSERT_GT(test.at("min_top2_gap_on_path").get<double>(), kFairGap);
    std::vector<float> row = LastRow(logits, model.vocab_size());
    for (const Json& id : test.at("greedy_ids")) {
      ASSERT_EQ(std::max_element(row.begin(), row.end()) - row.begin(), id.get<int>());
      row = model.Append(id.get<int32_t>());
    }
  }
}

TEST(RealCheckpointsTest, RanksAndStagesDoNotChangeABit) {
  for (const std::string name : {"models/stories260K", "models/tinystories-656k"}) {
    SLUICE_SKIP_WITHOUT(name);
    const Json golden = ReadJson(name + "/golden.json");
    const auto ids = golden.at("cases").at(0).at("greedy_ids").get<std::vector<int32_t>>();
    const std::vector<float> expected = Model(name).Prefill(ids);
    for (const PipelineOptions& options :
         {PipelineOptions{.num_ranks = 2}, PipelineOptions{.num_ranks = 4},
          PipelineOptions{.num_ranks = 2, .num_stages = 2}}) {
      EXPECT_EQ(Model(name, options).Prefill(ids), expected)
          << name << ": " << options.num_ranks << " ranks, " << options.num_stages << " stages";
    }
  }
}

}  // namespace
}  // namespace sluice::testing
