#include "orchestrator/beams/beam_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "tests/orchestrator/beams/toy_model.h"

namespace sluice {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

// A finished sequence, as clients see it.
struct Hypothesis {
  Text text;
  double sum = 0;
  double score = 0;
  bool stopped = false;

  friend bool operator==(const Hypothesis&, const Hypothesis&) = default;
  friend void PrintTo(const Hypothesis& h, std::ostream* out) {
    for (const TokenId token : h.text) *out << token << " ";
    *out << "sum " << h.sum << " score " << h.score << (h.stopped ? " stopped" : "");
  }
};

// Whether a text ends with a stop string, in a test that has some.
using EndsText = std::function<bool(const Text&)>;

double ScoreOf(double sum, size_t length, const BeamOptions& options) {
  return sum / std::pow(static_cast<double>(length), options.length_penalty);
}

// Written from the definition, without thrift: every step ranks all tokens after all beams.
std::vector<Hypothesis> Reference(const ToyModel& model, const BeamOptions& options,
                                  const EndsText& ends_text = nullptr) {
  std::vector<std::pair<Text, double>> live = {{{}, 0.0}};
  std::vector<Hypothesis> finished;
  const auto by_score = [](const Hypothesis& a, const Hypothesis& b) { return a.score > b.score; };
  const auto finish = [&](const Text& text, double sum, bool stopped) {
    finished.push_back({text, sum, ScoreOf(sum, text.size(), options), stopped});
    std::stable_sort(finished.begin(), finished.end(), by_score);
    if (std::ssize(finished) > options.width) finished.pop_back();
  };
  for (int step = 1; step <= options.max_length && !live.empty(); ++step) {
    std::vector<std::tuple<double, TokenId, int>> all;
    for (int i = 0; i < std::ssize(live); ++i) {
      const std::vector<float> logprobs = model.Logprobs(live[i].first);
      for (TokenId token = 0; token < model.vocabulary(); ++token) {
        all.emplace_back(-(live[i].second + logprobs[token]), token, i);
      }
    }
    std::sort(all.begin(), all.end());
    std::vector<std::pair<Text, double>> next;
    for (int rank = 0; rank < std::ssize(all) && std::ssize(next) < options.width; ++rank) {
      const auto& [negated, token, parent] = all[rank];
      Text text = live[parent].first;
      text.push_back(token);
      const bool stops =
          std::count(options.stop_tokens.begin(), options.stop_tokens.end(), token) > 0 ||
          (ends_text && ends_text(text));
      if (!stops) {
        next.emplace_back(text, -negated);
      } else if (rank < options.width) {
        finish(text, -negated, true);
      }
    }
    live = next;
    if (step == options.max_length) {
      for (const auto& [text, sum] : live) finish(text, sum, false);
      break;
    }
    if (live.empty() || std::ssize(finished) < options.width) continue;
    const double worst = finished.back().score;
    const double as_it_is = ScoreOf(live[0].second, step, options);
    const double at_length =
        ScoreOf(live[0].second, options.length_penalty > 0 ? options.max_length : step, options);
    if (options.early_stopping == EarlyStopping::kAtOnce) break;
    if (options.early_stopping == EarlyStopping::kHeuristic && worst >= as_it_is) break;
    if (options.early_stopping == EarlyStopping::kNever && worst >= at_length) break;
  }
  finished.resize(std::min<size_t>(finished.size(), options.num_return));
  return finished;
}

std::vector<BeamCandidate> CandidatesAfter(const ToyModel& model, const Text& text, int count) {
  const std::vector<float> logprobs = model.Logprobs(text);
  std::vector<BeamCandidate> candidates;
  for (TokenId token = 0; token < model.vocabulary(); ++token) {
    candidates.push_back({.token = token, .logprob = logprobs[token]});
  }
  std::sort(candidates.begin(), candidates.end(), [](const auto& a, const auto& b) {
    return std::tuple(-a.logprob, a.token) < std::tuple(-b.logprob, b.token);
  });
  if (std::ssize(candidates) > count) candidates.resize(count);
  return candidates;
}

void Step(BeamSearch& search, const ToyModel& model, const BeamOptions& options,
          const EndsText& ends_text = nullptr) {
  std::vector<std::vector<BeamCandidate>> candidates;
  for (const LiveBeam& beam : search.live()) {
    candidates.push_back(CandidatesAfter(model, TextOf(search, beam.node), NumCandidates(options)));
  }
  search.Rank(candidates);
  for (std::vector<int32_t> unknown = search.ToJudge(); !unknown.empty();
       unknown = search.ToJudge()) {
    for (const int32_t index : unknown) {
      const BeamSearch::Expansion& expansion = search.expansion(index);
      Text text = TextOf(search, search.live()[expansion.parent].node);
      text.push_back(expansion.token);
      search.Judge(index, ends_text(text));
    }
  }
  search.Advance();
}

std::vector<Hypothesis> Found(const BeamSearch& search) {
  std::vector<Hypothesis> found;
  for (const FinishedBeam& beam : search.Best()) {
    found.push_back(
        {TextOf(search, beam.node), beam.sum, beam.score, beam.end != BeamEnd::kLength});
  }
  return found;
}

std::vector<Hypothesis> SearchAll(const ToyModel& model, const BeamOptions& options,
                                  const EndsText& ends_text = nullptr) {
  BeamSearch search(options);
  while (!search.over()) Step(search, model, options, ends_text);
  return Found(search);
}

BeamOptions RandomOptions(std::mt19937& random, int vocabulary) {
  const auto pick = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  BeamOptions options;
  options.width = pick(1, 9);
  options.num_return = pick(1, options.width);
  options.max_length = pick(1, 8);
  options.length_penalty = std::vector<double>{-1, 0, 0.6, 1, 2}[pick(0, 4)];
  options.early_stopping = static_cast<EarlyStopping>(pick(0, 2));
  std::set<TokenId> stops;
  for (int i = pick(0, 3); i > 0; --i) stops.insert(pick(0, vocabulary - 1));
  options.stop_tokens.assign(stops.begin(), stops.end());
  return options;
}

TEST(BeamSearchTest, FindsWhatTheDefinitionFinds) {
  std::mt19937 random(1);
  int num_stopped = 0;
  for (uint32_t seed = 0; seed < 3000; ++seed) {
    const ToyModel model(seed, std::uniform_int_distribution<int>(2, 12)(random));
    const BeamOptions options = RandomOptions(random, model.vocabulary());
    const std::vector<Hypothesis> expected = Reference(model, options);
    ASSERT_EQ(SearchAll(model, options), expected) << "seed " << seed;
    for (const Hypothesis& hypothesis : expected) num_stopped += hypothesis.stopped;
  }
  EXPECT_GT(num_stopped, 1000);
}

// With stop strings a beam may have fewer tokens to go on with than it needs: of a vocabulary that is
// all among its candidates it has all.
TEST(BeamSearchTest, FindsWhatTheDefinitionFindsWithTextsThatEnd) {
  const EndsText ends_text = [](const Text& text) {
    return text.size() > 1 && (text.back() * 7 + text[text.size() - 2]) % 3 == 0;
  };
  std::mt19937 random(2);
  for (uint32_t seed = 0; seed < 1000; ++seed) {
    const ToyModel model(seed, std::uniform_int_distribution<int>(2, 6)(random));
    BeamOptions options = RandomOptions(random, model.vocabulary());
    options.width = std::max(options.width, 3);
    options.judges = true;
    ASSERT_EQ(SearchAll(model, options, ends_text), Reference(model, options, ends_text))
        << "seed " << seed;
  }
}

// Where every text fits into the beams, the best ones of all texts come out.
TEST(BeamSearchTest, FindsTheBestOfAllTextsWhereItsWidthIsTheirNumber) {
  constexpr int kVocabulary = 3, kLength = 4, kTexts = 81;
  for (uint32_t seed = 0; seed < 50; ++seed) {
    const ToyModel model(seed, kVocabulary);
    std::vector<std::pair<double, Text>> all;
    for (int number = 0; number < kTexts; ++number) {
      Text text;
      double sum = 0;
      for (int i = 0, rest = number; i < kLength; ++i, rest /= kVocabulary) {
        sum += model.Logprobs(text)[rest % kVocabulary];
        text.push_back(rest % kVocabulary);
      }
      all.emplace_back(-sum, text);
    }
    std::sort(all.begin(), all.end());
    const std::vector<Hypothesis> found =
        SearchAll(model, {.width = kTexts, .num_return = 10, .max_length = kLength});
    ASSERT_THAT(found, SizeIs(10));
    for (int i = 0; i < 10; ++i) {
      EXPECT_EQ(found[i].text, all[i].second);
      EXPECT_EQ(found[i].sum, -all[i].first);
    }
  }
}

TEST(BeamSearchTest, OneBeamTakesTheMostProbableToken) {
  const ToyModel model(5, 20);
  Text greedy;
  for (int i = 0; i < 12; ++i) {
    const std::vector<float> logprobs = model.Logprobs(greedy);
    greedy.push_back(static_cast<TokenId>(std::max_element(logprobs.begin(), logprobs.end()) -
                                          logprobs.begin()));
  }
  EXPECT_EQ(SearchAll(model, {.max_length = 12}).at(0).text, greedy);
}

// What every sequence that may be returned begins with never changes afterwards.
TEST(BeamSearchTest, WhatAllHaveInCommonStays) {
  int64_t early = 0;
  for (uint32_t seed = 0; seed < 300; ++seed) {
    const ToyModel model(seed, 10);
    const BeamOptions options = {.width = 4,
                                 .num_return = static_cast<int32_t>(1 + seed % 4),
                                 .max_length = 20,
                                 .stop_tokens = {0}};
    BeamSearch search(options);
    Text common;
    while (!search.over()) {
      Step(search, model, options);
      if (search.over()) break;
      const Text now = TextOf(search, search.Common());
      ASSERT_GE(now.size(), common.size());
      ASSERT_TRUE(std::equal(common.begin(), common.end(), now.begin()));
      common = now;
    }
    for (const Hypothesis& found : Found(search)) {
      ASSERT_GE(found.text.size(), common.size());
      EXPECT_TRUE(std::equal(common.begin(), common.end(), found.text.begin()));
    }
    early += std::ssize(common);
  }
  EXPECT_GT(early, 300);
}

TEST(BeamSearchTest, EqualSumsGoByTokenThenByBeam) {
  BeamSearch search({.width = 2, .num_return = 2, .max_length = 2});
  search.Rank(
      {std::vector<BeamCandidate>{{.token = 8, .logprob = -1}, {.token = 3, .logprob = -1}}});
  search.Advance();
  ASSERT_THAT(search.live(), SizeIs(2));
  EXPECT_EQ(search.TokenOf(search.live()[0].node), 3);
  EXPECT_EQ(search.TokenOf(search.live()[1].node), 8);
  const std::vector<BeamCandidate> same = {{.token = 5, .logprob = -1},
                                           {.token = 6, .logprob = -1}};
  search.Rank({same, same});
  search.Advance();
  EXPECT_TRUE(search.over());
  EXPECT_EQ(TextOf(search, search.Best()[0].node), (Text{3, 5}));
  EXPECT_EQ(TextOf(search, search.Best()[1].node), (Text{8, 5}));
}

TEST(BeamSearchTest, ABeamThatCantGoOnIsDropped) {
  BeamSearch search({.width = 2, .num_return = 2, .max_length = 9});
  search.Rank(
      {std::vector<BeamCandidate>{{.token = 1, .logprob = -1}, {.token = 2, .logprob = -2}}});
  search.Advance();
  search.Rank({{}, std::vector<BeamCandidate>{{.token = 4, .logprob = -1}}});
  search.Advance();
  ASSERT_THAT(search.live(), SizeIs(1));
  EXPECT_EQ(TextOf(search, search.live()[0].node), (Text{2, 4}));
  search.Rank({std::vector<BeamCandidate>{}});
  search.Advance();
  EXPECT_TRUE(search.over());
  EXPECT_THAT(search.Best(), IsEmpty());
}

}  // namespace
}  // namespace sluice
