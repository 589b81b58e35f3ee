// Choosing tokens: which can be drawn, with which probabilities.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/reference/reference_sampling.h"
#include "kernels/sampling.h"
#include "tests/kernels/testing/backend_cases.h"
#include "tests/kernels/testing/tensors.h"
#include "tests/testing/test_data.h"

namespace sluice::testing {
namespace {

using SampleTest = BackendTest;
SLUICE_FOR_ALL_BACKENDS(SampleTest);

using Json = nlohmann::json;
using Logits = std::vector<float>;
using Tokens = std::vector<TokenProbability>;

constexpr float kForbidden = -HUGE_VALF;

Json Golden(const std::string& name) {
  std::ifstream file(ProjectPath("tests/golden/" + name));
  return Json::parse(file);
}

// Chooses from equal rows of logits, as each of `rows` asks.
std::vector<SampledRow> Sample(Backend& backend, const Logits& logits,
                               const std::vector<SampleRow>& rows) {
  HostMatrix same(static_cast<int64_t>(rows.size()), static_cast<int64_t>(logits.size()));
  for (int64_t row = 0; row < same.rows; ++row) {
    std::copy(logits.begin(), logits.end(), same.values.begin() + row * same.cols);
  }
  const DeviceMatrix device(backend, same, 3);
  std::vector<SampledRow> results(rows.size());
  EXPECT_TRUE(backend.Sample(device.view(), rows, absl::MakeSpan(results)).ok());
  EXPECT_TRUE(SameBits(device.Read(), same));
  return results;
}

// What the row is drawn from, by ascending id, as the backend tells it.
Tokens Distribution(Backend& backend, const Logits& logits, SampleRow row) {
  row.num_top = static_cast<int>(logits.size());
  SampledRow result = Sample(backend, logits, {row})[0];
  EXPECT_EQ(result.error, SampleError::kNone);
  for (size_t i = 0; i + 1 < result.top.size(); ++i) {
    EXPECT_GE(result.top[i].probability, result.top[i + 1].probability);
  }
  std::sort(result.top.begin(), result.top.end(),
            [](const auto& a, const auto& b) { return a.id < b.id; });
  return result.top;
}

Tokens Distribution(Backend& backend, const Logits& logits, const SamplingOptions& options) {
  return Distribution(backend, logits, SampleRow{.options = &options});
}

void ExpectSame(const Tokens& actual, const Tokens& expected, double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_EQ(actual[i].id, expected[i].id);
    EXPECT_NEAR(actual[i].probability, expected[i].probability, tolerance);
  }
}

std::string Describe(const SamplingOptions& o) {
  return absl::StrCat("temperature ", o.temperature, " +- ", o.dynatemp_range, " top_k ", o.top_k,
                      " top_p ", o.top_p, " min_p ", o.min_p, " typical_p ", o.typical_p,
                      " top_n_sigma ", o.top_n_sigma, " xtc ", o.xtc_probability);
}

std::vector<SamplingOptions> OptionsOfEveryFilter() {
  return {{},
          {.temperature = 0},
          {.temperature = 0.7F},
          {.top_k = 5},
          {.top_k = 300},
          {.top_p = 0.5F},
          {.temperature = 1.3F, .top_p = 0.95F},
          {.top_k = 40, .top_p = 0.9F},
          {.min_p = 0.1F},
          {.temperature = 1.5F, .min_p = 0.02F},
          {.min_p = 1},
          {.top_p = 0.9F, .min_p = 0.05F},
          {.typical_p = 0.5F},
          {.temperature = 0.7F, .typical_p = 0.9F},
          {.top_k = 12, .typical_p = 0.2F},
          {.top_n_sigma = 1},
          {.temperature = 3, .top_n_sigma = 0.5F},
          {.xtc_probability = 1},
          {.temperature = 0.8F, .xtc_probability = 1, .xtc_threshold = 0.02F},
          {.temperature = 0.8F, .dynatemp_range = 0.5F},
          {.temperature = 1, .dynatemp_range = 1, .dynatemp_exponent = 2},
          {.temperature = 1.2F,
           .dynatemp_range = 0.4F,
           .top_k = 20,
           .top_p = 0.9F,
           .min_p = 0.05F,
           .typical_p = 0.95F,
           .top_n_sigma = 1.5F,
           .xtc_probability = 1,
           .xtc_threshold = 0.1F}};
}

// Rows with ties, with forbidden tokens (by edits), of one token and of many.
Logits RandomLogits(Random& random, int64_t size, float spread) {
  Logits logits = RandomMatrix(random, 1, size, spread).values;
  for (float& logit : logits) logit = std::round(logit * 16) / 16;
  return logits;
}

// The model's own log-probability, whatever options the token was chosen by, to the bit.
TEST_P(SampleTest, TellsTheLogProbabilityOfTheTokenAsLogSoftmaxDoes) {
  Random random(11);
  const std::vector<SamplingOptions> every = OptionsOfEveryFilter();
  for (const int64_t size : {1, 37, 2048, 2049, 9000}) {
    const Logits logits = RandomLogits(random, size, 4);
    const LogitEdit edit{.id = static_cast<int32_t>(size / 2), .bias = 9};
    std::vector<SampleRow> rows;
    for (size_t i = 0; i < every.size(); ++i) {
      rows.push_back({.options = &every[i],
                      .edits = {&edit, i % 2},
                      .token_uniform = 0.37,
                      .num_top = static_cast<int>(i % 3),
                      .wants_logprob = true});
    }
    DeviceMatrix row(backend(), HostMatrix(1, size, logits));
    backend().LogSoftmax(row.view(), row.view());
    const HostMatrix expected = row.Read();
    for (const SampledRow& result : Sample(backend(), logits, rows)) {
      ASSERT_EQ(result.error, SampleError::kNone);
      EXPECT_EQ(result.logprob, expected.At(0, result.token.id)) << size << " tokens";
    }
  }
}

TEST_P(SampleTest, KeepsWhatTheOracleKeepsWithItsProbabilities) {
  const Json golden = Golden("sampling_distributions.json");
  ASSERT_GT(golden.at("cases").size(), 100u);
  for (const Json& item : golden.at("cases")) {
    const SamplingOptions options{.temperature = item.at("temperature").get<float>(),
                                  .top_k = item.at("top_k").get<int>(),
                                  .top_p = item.at("top_p").get<float>()};
    SCOPED_TRACE(absl::StrCat(item.at("logits").get<std::string>(), ", ", Describe(options)));
    Tokens expected;
    for (size_t i = 0; i < item.at("ids").size(); ++i) {
      expected.push_back({item["ids"][i].get<int32_t>(), item["probabilities"][i].get<double>()});
    }
    Tokens kept = Distribution(
        backend(), golden.at("logits").at(item.at("logits").get<std::string>()).get<Logits>(),
        options);
    std::erase_if(kept, [](const TokenProbability& token) { return token.probability == 0; });
    ExpectSame(kept, expected, 1e-13);
  }
}

TEST_P(SampleTest, NucleusOfTheTextbook) {
  const Json example = Golden("worked_examples.json").at("nucleus");
  Logits logits;
  for (const double weight : example.at("inputs").at("weights")) {
    logits.push_back(static_cast<float>(std::log(weight)));
  }
  const Tokens kept =
      Distribution(backend(), logits, {.top_p = example.at("inputs").at("p").get<float>()});
  const auto ids = example.at("expected").at("kept").get<std::vector<int32_t>>();
  ASSERT_EQ(kept.size(), ids.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    EXPECT_EQ(kept[i].id, ids[i]);
    // The weights' logarithms are floats here.
    EXPECT_NEAR(kept[i].probability, example.at("expected").at("distribution")[ids[i]], 1e-6);
  }
}

TEST_P(SampleTest, EveryFilterKeepsWhatItsDefinitionKeeps) {
  Random random(3);
  for (const int64_t size : {1, 2, 5, 64, 701}) {
    for (const float spread : {0.0F, 0.5F, 2.0F, 6.0F}) {
      const Logits logits = RandomLogits(random, size, spread);
      for (const SamplingOptions& options : OptionsOfEveryFilter()) {
        SCOPED_TRACE(absl::StrCat(size, " of spread ", spread, ", ", Describe(options)));
        const SampleRow row{.options = &options};
        ExpectSame(Distribution(backend(), logits, row), ReferenceDistribution(logits, row), 1e-12);
      }
    }
  }
}

TEST_P(SampleTest, LargeVocabulariesKeepWhatTheDefinitionKeeps) {
  Random random(4);
  for (const float spread : {0.01F, 1.0F, 4.0F, 30.0F}) {
    const Logits logits = RandomLogits(random, 20001, spread);
    for (const SamplingOptions& options :
         std::vector<SamplingOptions>{{.top_k = 50},
                                      {.top_k = 1000},
                                      {.top_p = 1e-6F},
                                      {.top_p = 0.9F},
                                      {.top_p = std::nextafter(1.0F, 0.0F)},
                                      {.top_p = 0.99F, .min_p = 0.001F},
                                      {.typical_p = 0.8F},
                                      {.top_n_sigma = 2},
                                      {.temperature = 0.5F, .dynatemp_range = 0.5F}}) {
      SCOPED_TRACE(absl::StrCat("spread ", spread, ", ", Describe(options)));
      const SampleRow row{.options = &options};
      ExpectSame(Distribution(backend(), logits, row), ReferenceDistribution(logits, row), 1e-12);
    }
  }
}

TEST_P(SampleTest, EditsAndMasksChangeLogitsAsDefined) {
  const Logits logits = {1, -2, 3, 4, 0, 2.5F};
  const SamplingOptions options{.repetition_penalty = 2};
  const std::vector<LogitEdit> edits = {{.id = 0, .bias = 0.5F, .repeated = true},
                                        {.id = 1, .penalty = 0.25F, .repeated = true},
                                        {.id = 3, .bias = kForbidden, .repeated = true},
                                        {.id = 4, .bias = 1, .penalty = -0.75F}};
  const std::vector<uint32_t> allowed = {0b011111};
  const SampleRow row{.options = &options, .allowed = allowed, .edits = edits};
  // 1.5 / 2, -2 * 2 - 0.25, 3, forbidden, 0 + 1 + 0.75, forbidden
  const Logits expected = {0.75F, -4.25F, 3, kForbidden, 1.75F, kForbidden};
  EXPECT_EQ(ReferenceEditedLogits(logits, row), expected);
  const Tokens kept = Distribution(backend(), logits, row);
  ExpectSame(kept, ReferenceDistribution(logits, row), 1e-13);
  ASSERT_EQ(kept.size(), 4u);
  for (const TokenProbability& token : kept) {
    EXPECT_NEAR(token.probability / kept[0].probability, std::exp(expected[token.id] - 0.75),
                1e-12);
  }
  const SamplingOptions greedy{.temperature = 0};
  EXPECT_EQ(Sample(backend(), logits, {{.options = &greedy, .edits = edits}})[0].token.id, 2);
}

TEST_P(SampleTest, RowsThatCannotBeChosenFromFailAlone) {
  const SamplingOptions options{.top_p = 0.9F};
  const std::vector<uint32_t> nothing = {0};
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), HUGE_VALF, -HUGE_VALF}) {
    Logits logits(40, 1);
    logits[33] = bad;
    const SampledRow broken = Sample(backend(), logits, {{.options = &options}})[0];
    EXPECT_EQ(broken.error, SampleError::kNotFinite) << bad;
    EXPECT_EQ(broken.token.id, 33);
  }
  const std::vector<SampledRow> results = Sample(
      backend(), {1, 2, 3},
      {{.options = &options}, {.options = &options, .allowed = nothing}, {.options = &options}});
  EXPECT_EQ(results[0].error, SampleError::kNone);
  EXPECT_EQ(results[1].error, SampleError::kNothingLeft);
  EXPECT_EQ(results[2].error, SampleError::kNone);
}

TEST_P(SampleTest, GreedyTakesTheLowestOfEqualIds) {
  const SamplingOptions greedy{.temperature = 0};
  Logits logits(100, -1);
  logits[37] = logits[41] = logits[99] = 4;
  EXPECT_EQ(Sample(backend(), logits, {{.options = &greedy}})[0].token.id, 37);
}

TEST_P(SampleTest, SmallestAndLargestTemperaturesStayFinite) {
  const SamplingOptions cold{.temperature = std::numeric_limits<float>::denorm_min()};
  const Logits far = {std::numeric_limits<float>::max(), 0, std::numeric_limits<float>::lowest()};
  const auto result =
      Sample(backend(), far, {{.options = &cold, .token_uniform = 0x1.fffffffffffffp-1}})[0];
  EXPECT_EQ(result.token.id, 0);
  EXPECT_EQ(result.token.probability, 1);
  const SamplingOptions hot{.temperature = std::numeric_limits<float>::max()};
  for (const TokenProbability& token : Distribution(backend(), {5, 0, -5}, hot)) {
    EXPECT_NEAR(token.probability, 1.0 / 3, 1e-12);
  }
}

// The token for a random number is the one whose stretch of the cumulative distribution holds it.
TEST_P(SampleTest, DrawInvertsTheCumulativeSumByAscendingId) {
  Random random(5);
  for (const int64_t size : {3, 500, 9000}) {
    const Logits logits = RandomLogits(random, size, 2);
    for (const SamplingOptions& options :
         std::vector<SamplingOptions>{{}, {.top_p = 0.9F}, {.top_k = 2}}) {
      std::vector<SampleRow> rows;
      for (int i = 0; i <= 200; ++i) {
        const double uniform = i == 200 ? 0x1.fffffffffffffp-1 : i / 200.0;
        rows.push_back({.options = &options, .token_uniform = uniform});
      }
      const Tokens distribution = ReferenceDistribution(logits, rows[0]);
      const std::vector<SampledRow> results = Sample(backend(), logits, rows);
      for (size_t i = 0; i < rows.size(); ++i) {
        double before = 0;
        size_t at = 0;
        while (distribution.at(at).id != results[i].token.id) {
          before += distribution[at++].probability;
        }
        EXPECT_GE(rows[i].token_uniform, before - 1e-12);
        EXPECT_LE(rows[i].token_uniform, before + distribution[at].probability + 1e-12);
        EXPECT_NEAR(results[i].token.probability, distribution[at].probability, 1e-12);
      }
    }
  }
}

TEST_P(SampleTest, XtcRemovesTopChoicesAsOftenAsItsProbabilitySays) {
  const Logits logits = {2, 1, 1.5F, -4};
  const SamplingOptions options{.xtc_probability = 0.25F};
  const Tokens without =
      Distribution(backend(), logits, {.options = &options, .xtc_uniform = 0.24});
  ASSERT_EQ(without.size(), 2u);
  EXPECT_EQ(without[0].id, 1);
  EXPECT_EQ(without[1].id, 3);
  EXPECT_EQ(Distribution(backend(), logits, {.options = &options, .xtc_uniform = 0.25}).size(), 4u);
  const SamplingOptions always{.xtc_probability = 1};
  EXPECT_EQ(Distribution(backend(), {9, 1, 1}, always).size(), 3u);  // a single top choice stays
}

TEST_P(SampleTest, RowsAndThreadsDoNotMatter) {
  Random random(6);
  const HostMatrix logits = RandomMatrix(random, 9, 3001, 2);
  const SamplingOptions options{.temperature = 0.9F, .top_p = 0.9F, .typical_p = 0.97F};
  const auto sample = [&](Backend& by, int64_t begin, int64_t count) {
    std::vector<SampleRow> rows;
    for (int64_t row = begin; row < begin + count; ++row) {
      rows.push_back({.options = &options, .token_uniform = row / 9.0, .num_top = 4});
    }
    const DeviceMatrix device(by, logits.Rows(begin, count));
    std::vector<SampledRow> results(count);
    EXPECT_TRUE(by.Sample(device.view(), rows, absl::MakeSpan(results)).ok());
    std::vector<double> flat;
    for (const SampledRow& result : results) {
      flat.insert(flat.end(), {double(result.token.id), result.token.probability});
      for (const auto& [id, probability] : result.top)
        flat.insert(flat.end(), {double(id), probability});
    }
    return flat;
  };
  const std::vector<double> together = sample(backend(), 0, 9);
  EXPECT_EQ(sample(*NewBackend(4), 0, 9), together);
  std::vector<double> alone;
  for (int64_t row = 0; row < 9; ++row) {
    const std::vector<double> one = sample(backend(), row, 1);
    alone.insert(alone.end(), one.begin(), one.end());
  }
  EXPECT_EQ(alone, together);
}

// ---- Draws: 10^6 of each filter against the plain distribution ----

// What a chi-square test of `draws` tokens gives, and the value that it exceeds once in a million
// tests (Wilson and Hilferty 1931). Rare tokens are pooled.
struct ChiSquare {
  double statistic = 0;
  double limit = 0;
};

ChiSquare TestDraws(const std::map<int32_t, int>& counts, int draws, const Tokens& expected) {
  constexpr double kFewest = 10;
  ChiSquare result;
  double pooled = 0, pooled_count = 0, cells = 0;
  for (const TokenProbability& token : expected) {
    const double mean = token.probability * draws;
    const auto found = counts.find(token.id);
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

constexpr int kDraws = 1000000;
// Of each filter: ThreadSanitizer takes minutes for more.
#if defined(__SANITIZE_THREAD__)
constexpr int kDrawsOfFilter = 100000;
#else
constexpr int kDrawsOfFilter = kDraws;
#endif

std::map<int32_t, int> Draw(Backend& backend, const Logits& logits, const SamplingOptions& options,
                            int draws) {
  constexpr int kRows = 1000;
  std::mt19937_64 random(7);
  std::map<int32_t, int> counts;
  std::vector<SampleRow> rows(kRows, {.options = &options});
  for (int draw = 0; draw < draws; draw += kRows) {
    for (SampleRow& row : rows) row.token_uniform = static_cast<double>(random() >> 11) * 0x1p-53;
    for (const SampledRow& result : Sample(backend, logits, rows)) ++counts[result.token.id];
  }
  return counts;
}

TEST(SampleDraws, FollowThePlainDistributionOfEveryFilter) {
  Random random(8);
  const Logits logits = RandomLogits(random, 40, 1.5F);
  const auto backend = MakeCpuBackend({.num_threads = 2});
  for (const SamplingOptions& options : OptionsOfEveryFilter()) {
    SCOPED_TRACE(Describe(options));
    const Tokens expected = ReferenceDistribution(logits, {.options = &options});
    const std::map<int32_t, int> counts = Draw(*backend, logits, options, kDrawsOfFilter);
    for (const auto& [id, count] : counts) {
      EXPECT_TRUE(std::any_of(expected.begin(), expected.end(),
                              [id = id](const auto& token) { return token.id == id; }));
    }
    const ChiSquare result = TestDraws(counts, kDrawsOfFilter, expected);
    EXPECT_LT(result.statistic, result.limit);
  }
}

// The test above would notice a temperature that is wrong by two percent.
TEST(SampleDraws, ChiSquareNoticesAWrongTemperature) {
  Random random(8);
  const Logits logits = RandomLogits(random, 40, 1.5F);
  const auto backend = MakeCpuBackend({.num_threads = 2});
  const SamplingOptions right, wrong{.temperature = 1.02F};
  const ChiSquare result = TestDraws(Draw(*backend, logits, wrong, kDraws), kDraws,
                                     ReferenceDistribution(logits, {.options = &right}));
  EXPECT_GT(result.statistic, result.limit);
}

}  // namespace
}  // namespace sluice::testing
