// Against the definitions, as their authors' loops have them.
#include "services/sampler/repetition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <vector>

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;
using Tokens = std::vector<int32_t>;

std::set<int32_t> NgramEndsByDefinition(const Tokens& tokens, int n) {
  std::set<int32_t> ends;
  for (int token = 0; token < 10; ++token) {
    Tokens longer = tokens;
    longer.push_back(token);
    if (static_cast<int>(longer.size()) < n) continue;
    const Tokens last(longer.end() - n, longer.end());
    for (size_t begin = 0; begin + n <= tokens.size(); ++begin) {
      if (Tokens(tokens.begin() + begin, tokens.begin() + begin + n) == last) ends.insert(token);
    }
  }
  return ends;
}

std::map<int32_t, int32_t> RunsByDefinition(const Tokens& tokens, const std::set<int32_t>& stop) {
  std::map<int32_t, int32_t> runs;
  const auto size = static_cast<int>(tokens.size());
  for (int i = 0; i + 1 < size; ++i) {
    if (stop.contains(tokens[i + 1])) continue;
    int length = 0;
    while (length <= i && tokens[i - length] == tokens[size - 1 - length] &&
           !stop.contains(tokens[i - length])) {
      ++length;
    }
    if (length > 0) runs[tokens[i + 1]] = std::max(runs[tokens[i + 1]], length);
  }
  return runs;
}

Tokens RandomTokens(std::mt19937& random) {
  Tokens tokens(random() % 60);
  const int kinds = 1 + static_cast<int>(random() % 5);
  for (int32_t& token : tokens) token = static_cast<int32_t>(random() % kinds);
  return tokens;
}

TEST(RepeatedNgramEnds, AreThoseOfTheDefinition) {
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    const Tokens tokens = RandomTokens(random);
    const int n = 1 + static_cast<int>(random() % 6);
    const auto ends = RepeatedNgramEnds(tokens, n);
    EXPECT_EQ(std::set<int32_t>(ends.begin(), ends.end()), NgramEndsByDefinition(tokens, n));
  }
}

TEST(RepeatedNgramEnds, OfOneTokenAreAllThatOccurred) {
  EXPECT_THAT(RepeatedNgramEnds({5, 7, 5}, 1), UnorderedElementsAre(5, 7));
  EXPECT_THAT(RepeatedNgramEnds({5, 7, 5}, 2), UnorderedElementsAre(7));
  EXPECT_THAT(RepeatedNgramEnds({5}, 3), IsEmpty());
  EXPECT_THAT(RepeatedNgramEnds({5, 5, 5}, 2147483647), IsEmpty());
}

TEST(RepeatedRuns, AreThoseOfTheDefinition) {
  std::mt19937 random(2);
  for (int i = 0; i < 2000; ++i) {
    const Tokens tokens = RandomTokens(random);
    std::set<int32_t> breakers;
    if (i % 2 == 0) breakers.insert(static_cast<int32_t>(random() % 5));
    const auto runs = RepeatedRuns(tokens, {breakers.begin(), breakers.end()});
    EXPECT_EQ((std::map<int32_t, int32_t>(runs.begin(), runs.end())),
              RunsByDefinition(tokens, breakers));
  }
}

TEST(RepeatedRuns, GiveTheLongestRunBeforeEachContinuation) {
  EXPECT_THAT(RepeatedRuns({1, 2, 3, 9, 2, 3, 4, 1, 2, 3}, {}),
              UnorderedElementsAre(Pair(9, 3), Pair(4, 2)));
  EXPECT_THAT(RepeatedRuns({1, 2, 3, 9, 2, 3, 4, 1, 2, 3}, {2}),
              UnorderedElementsAre(Pair(9, 1), Pair(4, 1)));
  EXPECT_THAT(RepeatedRuns({1, 2, 3, 9, 2, 3, 4, 1, 2, 3}, {3}), IsEmpty());
  EXPECT_THAT(RepeatedRuns({}, {}), IsEmpty());
}

// A run as long as the text takes linear time.
TEST(RepeatedRuns, OfOneTokenAHundredThousandTimesAreFoundAtOnce) {
  const Tokens tokens(100000, 7);
  EXPECT_THAT(RepeatedRuns(tokens, {}), ElementsAre(Pair(7, 99999)));
}

}  // namespace
}  // namespace sluice
