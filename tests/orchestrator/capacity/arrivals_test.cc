#include "orchestrator/capacity/arrivals.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ArrivalsTest, DrawTimesOfTheLawsMeanAndVariation) {
  for (const char* text : {"steady:4", "poisson:4", "bursty:4:3", "bursty:4:0.5"}) {
    const absl::StatusOr<ArrivalLaw> law = ParseArrivalLaw(text);
    ASSERT_TRUE(law.ok()) << law.status();
    const std::vector<double> times = MakeArrivals(*law, 200'001, 7);
    double sum = 0, squares = 0;
    for (size_t i = 1; i < times.size(); ++i) {
      ASSERT_GE(times[i], times[i - 1]);
      const double gap = times[i] - times[i - 1];
      sum += gap;
      squares += gap * gap;
    }
    const auto count = static_cast<double>(times.size() - 1);
    const double mean = sum / count;
    EXPECT_NEAR(mean, 0.25, 0.25 * 0.03) << text;
    EXPECT_NEAR(std::sqrt(std::max(squares / count - mean * mean, 0.0)) / mean, law->variation,
                0.05 * law->variation + 1e-4)
        << text;
  }
}

TEST(ArrivalsTest, AreTheSameForASeedAndOthersForAnother) {
  const ArrivalLaw law{.rate = 2};
  EXPECT_EQ(MakeArrivals(law, 50, 1), MakeArrivals(law, 50, 1));
  EXPECT_NE(MakeArrivals(law, 50, 1), MakeArrivals(law, 50, 2));
  EXPECT_THAT(MakeArrivals({.rate = 2, .variation = 0}, 3, 1), ElementsAre(0, 0.5, 1));
}

TEST(ArrivalsTest, LoadsHaveLengthsOfTheirRangesAndShareTheirPrefixes) {
  const Trace trace = MakeTrace({.num_requests = 500,
                                 .prompt_tokens = {10, 40},
                                 .new_tokens = {3, 3},
                                 .prefix_tokens = 16,
                                 .num_prefixes = 2});
  int least = 100, most = 0, same = 0;
  const std::vector<TokenId> first = PromptOf(trace, 0);
  for (size_t i = 0; i < trace.requests.size(); ++i) {
    const std::vector<TokenId> prompt = PromptOf(trace, i);
    least = std::min(least, trace.requests[i].prompt_tokens);
    most = std::max(most, trace.requests[i].prompt_tokens);
    EXPECT_EQ(trace.requests[i].new_tokens, 3);
    EXPECT_EQ(std::ssize(prompt), trace.requests[i].prompt_tokens);
    same += std::equal(first.begin(), first.begin() + 8, prompt.begin()) ? 1 : 0;
  }
  EXPECT_EQ(least, 10);
  EXPECT_EQ(most, 40);
  EXPECT_GT(same, 200);
  EXPECT_LT(same, 300);
}

TEST(ArrivalsTest, RefuseOtherTexts) {
  for (const char* text : {"", "poisson", "poisson:0", "poisson:-1", "poisson:nan", "poisson:1:2",
                           "bursty:1", "bursty:1:0", "uniform:3", "steady:1e9"}) {
    EXPECT_THAT(std::string(ParseArrivalLaw(text).status().message()),
                HasSubstr("is no law of arrivals; accepted: poisson:RATE"))
        << text;
  }
  for (const char* text : {"", "0", "5-4", "-3", "3-", "a", "16777217"}) {
    EXPECT_THAT(std::string(ParseTokenRange(text).status().message()),
                HasSubstr("is no number of tokens; accepted: N or LEAST-MOST, 1 to 16777216"))
        << text;
  }
}

}  // namespace
}  // namespace sluice
