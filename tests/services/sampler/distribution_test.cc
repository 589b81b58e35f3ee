#include "services/sampler/distribution.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/sampler/philox.h"
#include "tests/testing/test_data.h"

namespace sluice {
namespace {

using Json = nlohmann::json;

// Double arithmetic in another order than the oracle's.
constexpr double kTolerance = 1e-13;

Json Golden(const std::string& name) {
  std::ifstream file(testing::ProjectPath("tests/golden/" + name));
  return Json::parse(file);
}

std::vector<TokenProbability> Distribution(const std::vector<float>& logits,
                                           const SamplingOptions& options) {
  std::vector<TokenProbability> kept;
  FilteredDistribution(logits, options, kept);
  return kept;
}

struct Case {
  std::string name;
  std::vector<float> logits;
  SamplingOptions options;
  std::map<int32_t, double> expected;
};

std::vector<Case> GoldenCases() {
  const Json golden = Golden("sampling_distributions.json");
  std::vector<Case> cases;
  for (const Json& item : golden.at("cases")) {
    Case result;
    const auto row = item.at("logits").get<std::string>();
    result.logits = golden.at("logits").at(row).get<std::vector<float>>();
    result.options = {.temperature = item.at("temperature").get<float>(),
                      .top_k = item.at("top_k").get<int>(),
                      .top_p = item.at("top_p").get<float>()};
    result.name = absl::StrCat(row, " temperature ", result.options.temperature, " top_k ",
                               result.options.top_k, " top_p ", result.options.top_p);
    for (size_t i = 0; i < item.at("ids").size(); ++i) {
      result.expected[item["ids"][i].get<int32_t>()] = item["probabilities"][i].get<double>();
    }
    cases.push_back(result);
  }
  return cases;
}

TEST(DistributionTest, KeepsWhatTheOracleKeepsWithItsProbabilities) {
  const std::vector<Case> cases = GoldenCases();
  ASSERT_GT(cases.size(), 100u);
  for (const Case& test : cases) {
    SCOPED_TRACE(test.name);
    std::vector<TokenProbability> kept = Distribution(test.logits, test.options);
    std::erase_if(kept, [](const TokenProbability& token) { return token.probability == 0; });
    ASSERT_EQ(kept.size(), test.expected.size());
    auto expected = test.expected.begin();
    for (const TokenProbability& token : kept) {
      EXPECT_EQ(token.id, expected->first);
      EXPECT_NEAR(token.probability, expected->second, kTolerance);
      ++expected;
    }
  }
}

TEST(DistributionTest, ProbabilitiesAddUpToOne) {
  for (const Case& test : GoldenCases()) {
    double total = 0;
    for (const TokenProbability& token : Distribution(test.logits, test.options)) {
      total += token.probability;
    }
    EXPECT_NEAR(total, 1, kTolerance) << test.name;
  }
}

// The statistic that a chi-square test of `draws` tokens gives, and the value that it exceeds once
// in a million tests (Wilson and Hilferty 1931). Rare tokens are pooled.
struct ChiSquare {
  double statistic = 0;
  double limit = 0;
};

ChiSquare TestDraws(const std::map<int32_t, int>& counts, int draws,
                    const std::map<int32_t, double>& expected) {
  constexpr double kFewest = 10;
  ChiSquare result;
  double pooled = 0, pooled_count = 0, cells = 0;
  for (const auto& [id, probability] : expected) {
    const double mean = probability * draws;
    const auto found = counts.find(id);
    const double count = found == counts.end() ? 0 : found->second;
    if (mean < kFewest) {
      pooled += mean;
      pooled_count += count;
      continue;
    }
    result.statistic += (count - mean) * (count - mean) / mean;
    ++cells;
  }
  if (pooled > 0) {
    result.statistic += (pooled_count - pooled) * (pooled_count - pooled) / std::max(pooled, 1.0);
    ++cells;
  }
  const double df = std::max(cells - 1, 1.0);
  const double z = 4.75;
  result.limit = df * std::pow(1 - 2 / (9 * df) + z * std::sqrt(2 / (9 * df)), 3);
  return result;
}

std::map<int32_t, int> Draw(const Case& test, uint64_t seed, int draws) {
  const std::vector<TokenProbability> kept = Distribution(test.logits, test.options);
  std::map<int32_t, int> counts;
  for (int position = 0; position < draws; ++position) {
    ++counts[DrawToken(kept, UniformFor(seed, 0, position))];
  }
  return counts;
}

TEST(DistributionTest, DrawsFollowTheOraclesDistribution) {
  constexpr int kDraws = 100000;
  constexpr uint64_t kSeed = 99;
  for (const Case& test : GoldenCases()) {
    SCOPED_TRACE(test.name);
    const std::map<int32_t, int> counts = Draw(test, kSeed, kDraws);
    for (const auto& [id, count] : counts) EXPECT_TRUE(test.expected.contains(id)) << id;
    const ChiSquare result = TestDraws(counts, kDraws, test.expected);
    EXPECT_LT(result.statistic, result.limit);
  }
}

// The test above would notice a temperature that is wrong by five percent.
TEST(DistributionTest, ChiSquareNoticesAWrongTemperature) {
  constexpr int kDraws = 100000;
  const std::vector<Case> cases = GoldenCases();
  const auto exact = std::find_if(cases.begin(), cases.end(), [](const Case& test) {
    return test.name == "random temperature 1 top_k 0 top_p 1";
  });
  ASSERT_NE(exact, cases.end());
  Case wrong = *exact;
  wrong.options.temperature = 1.05F;
  const ChiSquare result = TestDraws(Draw(wrong, 99, kDraws), kDraws, exact->expected);
  EXPECT_GT(result.statistic, result.limit);
}

TEST(DistributionTest, NucleusOfTheTextbook) {
  const Json example = Golden("worked_examples.json").at("nucleus");
  std::vector<float> logits;
  for (const double weight : example.at("inputs").at("weights")) {
    logits.push_back(static_cast<float>(std::log(weight)));
  }
  const auto kept = Distribution(logits, {.top_p = example.at("inputs").at("p").get<float>()});
  const auto ids = example.at("expected").at("kept").get<std::vector<int32_t>>();
  ASSERT_EQ(kept.size(), ids.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    EXPECT_EQ(kept[i].id, ids[i]);
    // The weights' logarithms are floats here.
    EXPECT_NEAR(kept[i].probability, example.at("expected").at("distribution")[ids[i]], 1e-6);
  }
}

// The ids of the nucleus, found by sorting everything.
std::vector<int32_t> SortedNucleus(std::vector<TokenProbability> all, double top_p) {
  std::stable_sort(all.begin(), all.end(),
                   [](const auto& a, const auto& b) { return a.probability > b.probability; });
  std::vector<int32_t> ids;
  double before = 0;
  for (const TokenProbability& token : all) {
    if (before >= top_p) break;
    ids.push_back(token.id);
    before += token.probability;
  }
  std::sort(ids.begin(), ids.end());
  return ids;
}

TEST(DistributionTest, NucleusOfALargeVocabularyIsThatOfSortingIt) {
  std::mt19937 random(1);
  for (const float spread : {0.0F, 0.01F, 1.0F, 3.0F, 30.0F}) {
    std::normal_distribution<float> normal(0, spread + 1e-20F);
    std::vector<float> logits(20000);
    // Many ties.
    for (float& logit : logits) logit = std::round(normal(random) * 50) / 50;
    const std::vector<TokenProbability> all = Distribution(logits, {});
    for (const float top_p : {1e-6F, 0.1F, 0.5F, 0.9F, 0.999F, std::nextafter(1.0F, 0.0F)}) {
      std::vector<int32_t> ids;
      for (const auto& token : Distribution(logits, {.top_p = top_p})) ids.push_back(token.id);
      EXPECT_EQ(ids, SortedNucleus(all, top_p)) << "spread " << spread << ", top_p " << top_p;
    }
  }
}

TEST(DistributionTest, TopKOfALargeVocabularyIsThatOfSortingIt) {
  std::mt19937 random(2);
  std::normal_distribution<float> normal(0, 3);
  std::vector<float> logits(5000);
  for (float& logit : logits) logit = normal(random);
  for (const bool ascending : {false, true}) {
    if (ascending) std::sort(logits.begin(), logits.end());
    for (const int k : {1, 2, 40, 255, 256, 257, 4999}) {
      std::vector<float> sorted = logits;
      std::sort(sorted.begin(), sorted.end(), std::greater<>());
      const auto kept = Distribution(logits, {.top_k = k});
      EXPECT_EQ(kept.size(), static_cast<size_t>(k));
      for (const auto& token : kept) EXPECT_GE(logits[token.id], sorted[k - 1]);
    }
  }
}

double Entropy(const std::vector<TokenProbability>& distribution) {
  double entropy = 0;
  for (const TokenProbability& token : distribution) {
    if (token.probability > 0) entropy -= token.probability * std::log(token.probability);
  }
  return entropy;
}

TEST(DistributionTest, HigherTemperatureSoftens) {
  const std::vector<float> logits = {1, 3, -2, 0.5, 2.75};
  double previous = 0;
  for (const float temperature : {0.1F, 0.5F, 1.0F, 2.0F, 10.0F}) {
    const double entropy = Entropy(Distribution(logits, {.temperature = temperature}));
    EXPECT_GT(entropy, previous) << temperature;
    previous = entropy;
  }
  EXPECT_LT(previous, std::log(5.0));
}

TEST(DistributionTest, GreedyTakesTheLowestOfEqualIds) {
  const auto kept = Distribution({-1, 4, 2, 4, 4}, {.temperature = 0});
  ASSERT_EQ(kept.size(), 1u);
  EXPECT_EQ(kept[0].id, 1);
  EXPECT_EQ(kept[0].probability, 1);
}

TEST(DistributionTest, SmallestAndLargestTemperaturesStayFinite) {
  const std::vector<float> logits = {std::numeric_limits<float>::max(), 0,
                                     std::numeric_limits<float>::lowest()};
  const auto cold = Distribution(logits, {.temperature = std::numeric_limits<float>::denorm_min()});
  EXPECT_EQ(cold[0].probability, 1);
  EXPECT_EQ(DrawToken(cold, 0x1.fffffffffffffp-1), 0);
  const auto hot = Distribution({5, 0, -5}, {.temperature = std::numeric_limits<float>::max()});
  for (const TokenProbability& token : hot) EXPECT_NEAR(token.probability, 1.0 / 3, 1e-12);
}

TEST(DistributionTest, DrawInvertsTheCumulativeSumByAscendingId) {
  const std::vector<TokenProbability> distribution = {{2, 0.25}, {5, 0.0}, {7, 0.5}, {9, 0.25}};
  EXPECT_EQ(DrawToken(distribution, 0), 2);
  EXPECT_EQ(DrawToken(distribution, 0.2499), 2);
  EXPECT_EQ(DrawToken(distribution, 0.25), 7);
  EXPECT_EQ(DrawToken(distribution, 0.7499), 7);
  EXPECT_EQ(DrawToken(distribution, 0.75), 9);
  EXPECT_EQ(DrawToken(distribution, 0x1.fffffffffffffp-1), 9);
}

TEST(DistributionTest, OptionsOutOfRangeAreRefusedByName) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(CheckSamplingOptions({}).ok());
  EXPECT_TRUE(CheckSamplingOptions({.temperature = 0, .top_k = 1 << 30, .top_p = 1e-30F}).ok());
  const auto expect_refused = [](const SamplingOptions& options, const std::string& message) {
    const absl::Status status = CheckSamplingOptions(options);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(status.message(), message);
  };
  expect_refused({.temperature = -0.5F}, "temperature is -0.5; accepted: a finite number from 0");
  expect_refused({.temperature = kNaN}, "temperature is nan; accepted: a finite number from 0");
  expect_refused({.temperature = kInfinity},
                 "temperature is inf; accepted: a finite number from 0");
  expect_refused({.top_k = -1}, "top_k is -1; accepted: 0 (all) or more");
  expect_refused({.top_p = 0}, "top_p is 0; accepted: above 0, up to 1");
  expect_refused({.top_p = 1.5F}, "top_p is 1.5; accepted: above 0, up to 1");
  expect_refused({.top_p = kNaN}, "top_p is nan; accepted: above 0, up to 1");
}

}  // namespace
}  // namespace sluice
