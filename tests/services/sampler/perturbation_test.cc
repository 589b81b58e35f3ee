#include "services/sampler/perturbation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace sluice {
namespace {

TEST(PerturbationTest, VariatesAreGumbels) {
  constexpr int kDraws = 200'000;
  double sum = 0, squares = 0;
  for (int32_t token = 0; token < kDraws; ++token) {
    const double variate = GumbelFor({.seed = 9, .sequence_index = 1, .position = 5}, token);
    ASSERT_TRUE(std::isfinite(variate));
    sum += variate;
    squares += variate * variate;
  }
  constexpr double kEuler = 0.57721566490153286, kVariance = 1.6449340668482264;  // pi^2 / 6
  const double mean = sum / kDraws;
  EXPECT_NEAR(mean, kEuler, 5 * std::sqrt(kVariance / kDraws));
  EXPECT_NEAR(squares / kDraws - mean * mean, kVariance, 0.03);
}

TEST(PerturbationTest, EveryPlaceAndTokenHasItsOwn) {
  std::set<double> variates;
  for (const uint64_t seed : {0ull, 7ull}) {
    for (const int32_t index : {0, 1, 5}) {
      for (const int32_t position : {0, 1, 900}) {
        for (const int32_t token : {0, 1, 70'000}) {
          variates.insert(GumbelFor({seed, index, position}, token));
        }
      }
    }
  }
  EXPECT_EQ(variates.size(), 2u * 3 * 3 * 3);
}

// The first is drawn by the probabilities, the second by those of the others. The 99.9th percentile of
// chi-square with 11 degrees of freedom is 31.3.
TEST(PerturbationTest, TheMostPerturbedAreADrawWithoutReplacement) {
  const std::vector<double> probabilities = {0.4, 0.3, 0.2, 0.1};
  std::vector<TokenLogprob> tokens;
  for (int32_t id = 0; id < 4; ++id) {
    tokens.push_back({id, static_cast<float>(std::log(probabilities[id]))});
  }
  constexpr int kDraws = 100'000;
  std::map<std::pair<int32_t, int32_t>, int> seen;
  for (int32_t position = 0; position < kDraws; ++position) {
    const auto drawn = MostPerturbed(tokens, {.seed = 3, .position = position}, 2);
    ASSERT_EQ(drawn.size(), 2u);
    ASSERT_GE(drawn[0].perturbed, drawn[1].perturbed);
    ++seen[{drawn[0].token.id, drawn[1].token.id}];
  }
  double chi_square = 0;
  for (int32_t a = 0; a < 4; ++a) {
    for (int32_t b = 0; b < 4; ++b) {
      if (a == b) continue;
      const double expected = kDraws * probabilities[a] * probabilities[b] / (1 - probabilities[a]);
      const double difference = seen[{a, b}] - expected;
      chi_square += difference * difference / expected;
    }
  }
  EXPECT_LT(chi_square, 31.3);
}

TEST(PerturbationTest, GivesAllWhereTheyAreFewer) {
  const std::vector<TokenLogprob> tokens = {{4, -1}, {5, -0.5}};
  EXPECT_EQ(MostPerturbed(tokens, {}, 9).size(), 2u);
}

}  // namespace
}  // namespace sluice
