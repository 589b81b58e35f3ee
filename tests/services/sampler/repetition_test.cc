// Against the definitions, as their authors' loops have them.
#include "services/sampler/repetition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <time.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <vector>

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
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

// A sequence that both classes follow.
class Followed {
 public:
  explicit Followed(int n, const std::set<int32_t>& breakers = {})
      : ends_(n), runs_({breakers.begin(), breakers.end()}) {}

  void Append(int32_t token) {
    tokens_.push_back(token);
    ends_.OnAppend(tokens_);
    runs_.OnAppend(tokens_);
  }
  void Truncate(size_t size) {
    ends_.OnTruncate(tokens_, static_cast<int32_t>(size));
    runs_.OnTruncate(tokens_, static_cast<int32_t>(size));
    tokens_.resize(size);
  }
  const Tokens& tokens() const { return tokens_; }
  std::set<int32_t> Ends() const { return {ends_.Find().begin(), ends_.Find().end()}; }
  std::map<int32_t, int32_t> Runs(int32_t range = 0) {
    const auto runs = runs_.Find(tokens_, range);
    return {runs.begin(), runs.end()};
  }

 private:
  Tokens tokens_;
  NgramEnds ends_;
  RepeatedRuns runs_;
};

Followed Of(const Tokens& tokens, int n, const std::set<int32_t>& breakers = {}) {
  Followed followed(n, breakers);
  for (const int32_t token : tokens) followed.Append(token);
  return followed;
}

// Tokens are appended and cut as drafts are, now and then further back than any draft.
TEST(Repetition, IsThatOfTheDefinitionWhateverWasAppendedAndCut) {
  std::mt19937 random(1);
  for (int i = 0; i < 300; ++i) {
    const int n = 1 + static_cast<int>(random() % 6);
    const int kinds = 1 + static_cast<int>(random() % 5);
    std::set<int32_t> breakers;
    if (i % 2 == 0) breakers.insert(static_cast<int32_t>(random() % 5));
    Followed followed(n, breakers);
    for (int k = 0; k < 40; ++k) {
      for (int added = static_cast<int>(random() % 12); added > 0; --added) {
        followed.Append(static_cast<int32_t>(random() % kinds));
      }
      const size_t size = followed.tokens().size();
      const size_t cut = random() % 10 == 0 ? random() % (size + 1) : std::min<size_t>(size, 3);
      if (random() % 3 == 0) followed.Truncate(size - cut);
      if (random() % 3 == 0) continue;  // not every step asks
      const Tokens& tokens = followed.tokens();
      ASSERT_EQ(followed.Ends(), NgramEndsByDefinition(tokens, n));
      ASSERT_EQ(followed.Runs(), RunsByDefinition(tokens, breakers));
      const size_t range = 1 + random() % (tokens.size() + 1);
      const size_t begin = tokens.size() - std::min(range, tokens.size());
      ASSERT_EQ(followed.Runs(static_cast<int32_t>(range)),
                RunsByDefinition(Tokens(tokens.begin() + begin, tokens.end()), breakers));
    }
  }
}

TEST(NgramEnds, OfOneTokenAreAllThatOccurred) {
  EXPECT_THAT(Of({5, 7, 5}, 1).Ends(), ElementsAre(5, 7));
  EXPECT_THAT(Of({5, 7, 5}, 2).Ends(), ElementsAre(7));
  EXPECT_THAT(Of({5}, 3).Ends(), IsEmpty());
  EXPECT_THAT(Of({5, 5, 5}, 2147483647).Ends(), IsEmpty());
}

TEST(RepeatedRuns, AreTheLongestBeforeEachContinuation) {
  const Tokens tokens{1, 2, 3, 9, 2, 3, 4, 1, 2, 3};
  EXPECT_THAT(Of(tokens, 1).Runs(), ElementsAre(Pair(4, 2), Pair(9, 3)));
  EXPECT_THAT(Of(tokens, 1, {2}).Runs(), ElementsAre(Pair(4, 1), Pair(9, 1)));
  EXPECT_THAT(Of(tokens, 1, {3}).Runs(), IsEmpty());
  EXPECT_THAT(Of({}, 1).Runs(), IsEmpty());
}

TEST(RepeatedRuns, CountTheNewestOccurrencesOfTheLastToken) {
  Tokens tokens{7, 1, 7, 2};
  for (int i = 1; i < RepeatedRuns::kMaxOccurrences; ++i) tokens.insert(tokens.end(), {7, 3});
  tokens.push_back(7);
  EXPECT_EQ(Of(tokens, 1).Runs().count(1), 0u);
  EXPECT_EQ(Of(tokens, 1).Runs().count(2), 1u);
}

// The token before has occurred more often than is kept: what its old occurrences begin is found.
TEST(RepeatedRuns, DoNotDependOnWhetherTheyWereFollowed) {
  Tokens tokens{5, 6, 7, 8};
  for (int i = 0; i < RepeatedRuns::kMaxOccurrences + 100; ++i) {
    tokens.insert(tokens.end(), {6, 3});
  }
  tokens.insert(tokens.end(), {5, 6});
  Followed followed = Of(tokens, 1);
  followed.Runs();
  followed.Append(7);
  tokens.push_back(7);
  EXPECT_THAT(followed.Runs(), ElementsAre(Pair(8, 3)));
  EXPECT_EQ(followed.Runs(), Of(tokens, 1).Runs());
}

double ThreadSeconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// 200 steps, each with a draft that is then cut, take no more than a few passes over a sequence of
// 200,000 tokens; a pass in each would take hundreds.
TEST(Repetition, CostsAStepWhatItsNewTokensCost) {
  const double begin = ThreadSeconds();
  Followed followed = Of(Tokens(200000, 7), 1000);
  EXPECT_THAT(followed.Runs(), ElementsAre(Pair(7, 199999)));
  const double built = ThreadSeconds();
  for (int i = 0; i < 200; ++i) {
    followed.Append(7);
    followed.Append(8);
    EXPECT_THAT(followed.Runs(), IsEmpty());
    EXPECT_THAT(followed.Ends(), IsEmpty());
    followed.Truncate(followed.tokens().size() - 1);
    EXPECT_THAT(followed.Ends(), ElementsAre(7));
    EXPECT_THAT(followed.Runs(), ElementsAre(Pair(7, followed.tokens().size() - 1)));
  }
  EXPECT_LT(ThreadSeconds() - built, 4 * (built - begin));
}

}  // namespace
}  // namespace sluice
