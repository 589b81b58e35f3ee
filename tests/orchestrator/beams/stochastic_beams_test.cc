// Stochastic beams are a sample without replacement.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>
#include <utility>

#include "tests/orchestrator/beams/toy_model.h"

namespace sluice {
namespace {

constexpr int kVocabulary = 3;

std::vector<BeamCandidate> Perturbed(const std::vector<float>& logprobs, std::mt19937& random) {
  std::extreme_value_distribution<double> gumbel(0, 1);
  std::vector<BeamCandidate> candidates;
  for (TokenId token = 0; token < kVocabulary; ++token) {
    candidates.push_back({.token = token,
                          .logprob = logprobs[token],
                          .perturbed = logprobs[token] + gumbel(random)});
  }
  return candidates;
}

// Texts of one to two tokens: 0 ends one.
class StochasticBeamsTest : public ::testing::Test {
 protected:
  StochasticBeamsTest() {
    after_[{}] = model_.Logprobs({});
    for (TokenId token = 0; token < kVocabulary; ++token) {
      after_[{token}] = model_.Logprobs({token});
    }
    probabilities_[{0}] = std::exp(after_[{}][0]);
    for (TokenId first = 1; first < kVocabulary; ++first) {
      for (TokenId second = 0; second < kVocabulary; ++second) {
        probabilities_[{first, second}] = std::exp(after_[{}][first] + after_[{first}][second]);
      }
    }
  }

  BeamSearch Sample(int width) {
    BeamSearch search({.width = width,
                       .num_return = width,
                       .max_length = 2,
                       .stop_tokens = {0},
                       .stochastic = true});
    while (!search.over()) {
      std::vector<std::vector<BeamCandidate>> candidates;
      for (const LiveBeam& beam : search.live()) {
        candidates.push_back(Perturbed(after_.at(TextOf(search, beam.node)), random_));
      }
      search.Rank(candidates);
      search.Advance();
    }
    return search;
  }

  const ToyModel model_{11, kVocabulary};
  std::map<Text, std::vector<float>> after_;
  std::map<Text, double> probabilities_;
  std::mt19937 random_{3};
};

double ChiSquare(const std::map<std::pair<Text, Text>, double>& expected,
                 const std::map<std::pair<Text, Text>, int>& seen, int total) {
  double sum = 0;
  for (const auto& [texts, probability] : expected) {
    const auto found = seen.find(texts);
    const double count = found == seen.end() ? 0 : found->second;
    sum += (count - probability * total) * (count - probability * total) / (probability * total);
  }
  return sum;
}

// Seven texts: 42 ordered pairs. The 99.9th percentile of chi-square with 41 degrees is 74.7.
TEST_F(StochasticBeamsTest, TheFirstTwoAreDrawnOneAfterTheOtherWithoutReplacement) {
  std::map<std::pair<Text, Text>, double> expected;
  for (const auto& [a, pa] : probabilities_) {
    for (const auto& [b, pb] : probabilities_) {
      if (a != b) expected[{a, b}] = pa * pb / (1 - pa);
    }
  }
  for (const int width : {2, 4}) {
    std::map<std::pair<Text, Text>, int> seen;
    constexpr int kRuns = 200'000;
    for (int i = 0; i < kRuns; ++i) {
      const BeamSearch search = Sample(width);
      const std::vector<FinishedBeam> best = search.Best();
      ASSERT_EQ(std::ssize(best), width);
      ++seen[{TextOf(search, best[0].node), TextOf(search, best[1].node)}];
    }
    EXPECT_LT(ChiSquare(expected, seen, kRuns), 74.7) << "width " << width;
  }
}

TEST_F(StochasticBeamsTest, ReturnsEveryTextOnceWhereItsWidthIsTheirNumber) {
  for (int i = 0; i < 100; ++i) {
    const BeamSearch search = Sample(7);
    std::map<Text, int> seen;
    for (const FinishedBeam& beam : search.Best()) ++seen[TextOf(search, beam.node)];
    EXPECT_EQ(seen.size(), 7u);
  }
}

TEST(ConditionedGumbelTest, KeepsTheParentAsTheLargestAndTheOrder) {
  EXPECT_EQ(ConditionedGumbel(-3, 5, 5), -3);
  double last = -3;
  for (const double own : {4.999999, 4.9, 2.0, -10.0, -500.0}) {
    const double conditioned = ConditionedGumbel(-3, 5, own);
    EXPECT_LT(conditioned, last);
    EXPECT_TRUE(std::isfinite(conditioned));
    // -log(exp(-parent) - exp(-largest) + exp(-own)), where that can be computed.
    if (own > -10) {
      EXPECT_NEAR(conditioned, -std::log(std::exp(3.0) - std::exp(-5.0) + std::exp(-own)), 1e-9);
    }
    last = conditioned;
  }
}

}  // namespace
}  // namespace sluice
