#include "orchestrator/capacity/fleet.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "orchestrator/capacity/arrivals.h"
#include "services/process/log.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class FleetTest : public ::testing::Test {
 protected:
  FleetTest() {
    SetMinimumLogLevel(LogLevel::kError);
    options_.costs.step_seconds = {{1, 0.010}, {101, 0.110}};
    options_.num_blocks = 1000;
    options_.scheduler.max_positions = 4096;
    options_.scheduler.max_tokens_per_step = 64;
  }

  // All at once.
  static Trace Requests(int count, int32_t prompt_tokens, int32_t new_tokens) {
    return MakeTrace({.arrivals = {.rate = 1e6, .variation = 0},
                      .num_requests = count,
                      .prompt_tokens = {prompt_tokens, prompt_tokens},
                      .new_tokens = {new_tokens, new_tokens}});
  }

  FleetOptions options_;
};

TEST_F(FleetTest, TakesTheTimeThatTheStepsOfALoneRequestTake) {
  options_.costs.request_seconds = 0.5;
  // 100 positions in chunks of 64 and 36, then a position a step.
  const FleetFigures figures = SimulateFleet(Requests(1, 100, 11), options_);
  EXPECT_EQ(figures.num_finished, 1);
  EXPECT_EQ(figures.generated_tokens, 11);
  EXPECT_NEAR(figures.first_token.max(), 0.5 + 0.073 + 0.045, 1e-9);
  EXPECT_NEAR(figures.between_tokens.max(), 0.010, 1e-9);
  EXPECT_EQ(figures.between_tokens.count(), 10);
  EXPECT_NEAR(figures.request.max(), 0.5 + 0.118 + 0.100, 1e-9);
  EXPECT_EQ(figures.num_steps, 12);
  EXPECT_THAT(figures.busy, ElementsAre(::testing::DoubleNear(1, 1e-9)));
}

TEST_F(FleetTest, BatchesWhatIsThereAndSplitsItOverReplicas) {
  const Trace trace = Requests(8, 1, 50);
  const FleetFigures one = SimulateFleet(trace, options_);
  options_.num_replicas = 4;
  const FleetFigures four = SimulateFleet(trace, options_);
  EXPECT_NEAR(one.between_tokens.Quantile(0.5), 0.017, 0.001);   // 8 rows
  EXPECT_NEAR(four.between_tokens.Quantile(0.5), 0.011, 0.001);  // 2
  EXPECT_EQ(four.busy.size(), 4u);
  EXPECT_EQ(four.num_finished, 8);
}

TEST_F(FleetTest, StagesOfAPipelineComputeAtTheSameTime) {
  const Trace trace = Requests(8, 1, 50);
  const FleetFigures one = SimulateFleet(trace, options_);
  options_.costs.pp = 2;
  options_.costs.step_seconds = {
      {1, 0.010}};  // flat: two steps of four are as long as one of eight
  const FleetFigures two = SimulateFleet(trace, options_);
  EXPECT_LT(two.between_tokens.Quantile(0.5), one.between_tokens.Quantile(0.5));
  EXPECT_NEAR(two.mean_step_sequences(), 4, 0.5);
  EXPECT_GT(two.mean_busy(), 0.9);
}

TEST_F(FleetTest, FindsSharedPrefixesInTheCacheOfTheReplicaThatHasThem) {
  SyntheticLoad load{.arrivals = {.rate = 1, .variation = 0},
                     .num_requests = 10,
                     .prompt_tokens = {100, 100},
                     .new_tokens = {2, 2},
                     .prefix_tokens = 64};
  EXPECT_EQ(SimulateFleet(MakeTrace(load), options_).cached_prompt_tokens, 9 * 64);
  options_.num_replicas = 2;
  EXPECT_EQ(SimulateFleet(MakeTrace(load), options_).cached_prompt_tokens, 8 * 64);
  load.num_prefixes = 1000;
  EXPECT_EQ(SimulateFleet(MakeTrace(load), options_).cached_prompt_tokens, 0);
}

TEST_F(FleetTest, PreemptsWhereBlocksRunOutAndFinishesAll) {
  options_.num_blocks = 12;
  const FleetFigures figures = SimulateFleet(Requests(6, 20, 80), options_);
  EXPECT_EQ(figures.num_finished, 6);
  EXPECT_EQ(figures.generated_tokens, 6 * 80);
  EXPECT_GT(figures.num_preemptions, 0);
}

TEST_F(FleetTest, CountsWhatIsRefusedAndWhatCannotBeServed) {
  options_.scheduler.max_queued_sequences = 4;
  options_.scheduler.max_sequences_per_step = 1;
  const FleetFigures refused = SimulateFleet(Requests(50, 10, 10), options_);
  EXPECT_GT(refused.num_refused, 30);
  EXPECT_EQ(refused.num_finished + refused.num_refused, 50);
  const FleetFigures failed = SimulateFleet(Requests(2, 4000, 200), options_);
  EXPECT_EQ(failed.num_failed, 2);
  EXPECT_THAT(failed.failure, HasSubstr("exceed the context"));
  EXPECT_EQ(failed.kept_share(), 0);
}

TEST_F(FleetTest, CountsRequestsThatKeepTheServiceLevels) {
  const Trace trace = Requests(8, 64, 2);  // the first token of the i-th after i steps of 0.073 s
  options_.levels = *ParseServiceLevels("ttft=200ms");
  const FleetFigures some = SimulateFleet(trace, options_);
  EXPECT_GT(some.kept_share(), 0.1);
  EXPECT_LT(some.kept_share(), 0.5);
  options_.levels = *ParseServiceLevels("tpot=1s,ttft=2s,e2e=1m");
  EXPECT_EQ(SimulateFleet(trace, options_).kept_share(), 1);
  options_.levels = *ParseServiceLevels("e2e=1ms");
  EXPECT_EQ(SimulateFleet(trace, options_).goodput(), 0);
}

TEST_F(FleetTest, SharesStepsBetweenTenantsByTheOperatorsRules) {
  Trace trace = Requests(40, 64, 20);
  trace.tenants = {"many", "few"};
  trace.requests.back().tenant = 1;
  options_.scheduler.max_sequences_per_step = 4;
  const FleetFigures alike = SimulateFleet(trace, options_);
  EXPECT_EQ(alike.num_finished, 40);
  // Its request comes last and does not wait for the 39 of the other: the last of those ends last.
  const auto policies = std::make_shared<TenantPolicies>();
  policies->named["many"] = {.max_running_sequences = 1};
  options_.scheduler.tenant_policies = [policies] { return policies; };
  const FleetFigures limited = SimulateFleet(trace, options_);
  EXPECT_GT(limited.seconds, 1.3 * alike.seconds);
}

TEST_F(FleetTest, SendsRequestsWhereTheirPrefixIsKnownUnlessThatReplicaIsBusy) {
  const Trace trace = MakeTrace({.arrivals = {.rate = 4, .variation = 0},
                                 .num_requests = 400,
                                 .prompt_tokens = {400, 400},
                                 .new_tokens = {8, 8},
                                 .prefix_tokens = 384,
                                 .num_prefixes = 40});
  options_.num_replicas = 4;
  options_.num_blocks = 400;  // room for the prefixes of a quarter of the texts
  const FleetFigures turns = SimulateFleet(trace, options_);
  options_.routing = FleetRouting::kPrefix;
  const FleetFigures prefix = SimulateFleet(trace, options_);
  EXPECT_EQ(prefix.num_finished, 400);
  EXPECT_GT(prefix.cache_hit_share(), turns.cache_hit_share() + 0.2);
  EXPECT_LT(prefix.first_token.mean(), turns.first_token.mean());
  for (const double busy : prefix.busy) EXPECT_GT(busy, 0.3 * prefix.mean_busy());
}

TEST_F(FleetTest, RequestsOfALostReplicaGoOnAtOthersWithTheTokensThatTheyHave) {
  const Trace trace = Requests(30, 50, 100);
  options_.num_replicas = 3;
  const FleetFigures quiet = SimulateFleet(trace, options_);
  options_.losses = {{.replica = 1, .seconds = 1.5}, {.replica = 1, .seconds = 1.6}};
  options_.start_seconds = 0.5;
  const FleetFigures figures = SimulateFleet(trace, options_);
  EXPECT_EQ(figures.num_losses, 1);  // it was away the second time
  EXPECT_EQ(figures.num_moved, 10);
  EXPECT_EQ(figures.num_finished, 30);
  EXPECT_EQ(figures.generated_tokens, 30 * 100);
  EXPECT_EQ(figures.first_token.count(), 30);
  EXPECT_EQ(figures.between_tokens.count(), 30 * 99);
  EXPECT_GT(figures.between_tokens.max(), quiet.between_tokens.max());
}

TEST_F(FleetTest, RequestsWaitWhileNoReplicaServes) {
  options_.losses = {{.replica = 0, .seconds = 0.2}};
  options_.start_seconds = 7;
  const FleetFigures figures = SimulateFleet(
      MakeTrace({.arrivals = {.rate = 2, .variation = 0}, .num_requests = 4}), options_);
  EXPECT_EQ(figures.num_finished, 4);
  EXPECT_GT(figures.first_token.max(), 5);
  EXPECT_LT(figures.busy.at(0), 0.9);
}

TEST_F(FleetTest, GivesTheSameFiguresAgainAndOnAnyNumberOfThreads) {
  const Trace trace = MakeTrace({.arrivals = {.rate = 20},
                                 .num_requests = 300,
                                 .prompt_tokens = {1, 300},
                                 .new_tokens = {1, 40}});
  options_.num_replicas = 3;
  const FleetFigures first = SimulateFleet(trace, options_);
  options_.num_threads = 3;
  const FleetFigures second = SimulateFleet(trace, options_);
  EXPECT_EQ(first.busy, second.busy);
  EXPECT_EQ(first.between_tokens.mean(), second.between_tokens.mean());
  EXPECT_EQ(first.seconds, second.seconds);
  EXPECT_EQ(first.num_steps, second.num_steps);
  EXPECT_EQ(first.request.Quantile(0.9), second.request.Quantile(0.9));
  int64_t arrivals = 0;
  for (const FleetWindow& window : first.windows) arrivals += window.arrivals;
  EXPECT_EQ(arrivals, 300);
}

TEST(FewestThatKeepTest, FindsTheSmallestAndAsksAboutFew) {
  for (const int wanted : {1, 2, 3, 7, 8, 64, 100}) {
    int asked = 0;
    const auto keeps = [&](int number) {
      ++asked;
      return number >= wanted;
    };
    EXPECT_EQ(FewestThatKeep(100, keeps), wanted);
    EXPECT_LE(asked, 15);
  }
  EXPECT_EQ(FewestThatKeep(100, [](int) { return false; }), std::nullopt);
}

TEST(ServiceLevelsTest, AreReadAndRefusedByName) {
  EXPECT_EQ(FormatServiceLevels(*ParseServiceLevels("tpot=50ms,ttft=1.5s")),
            "ttft 1.5s, tpot 50ms");
  for (const char* text :
       {"", "ttft", "ttft=0s", "ttft=1", "ttft=inf", "p99=1s", "ttft=1s,ttft=2s"}) {
    EXPECT_THAT(std::string(ParseServiceLevels(text).status().message()),
                HasSubstr("is no service level; accepted, each once: ttft=TIME"))
        << text;
  }
}

TEST(LogHistogramTest, GivesQuantilesToWithinItsResolution) {
  LogHistogram histogram, other;
  EXPECT_EQ(histogram.Quantile(0.5), 0);
  for (int i = 1; i <= 10'000; ++i) (i % 2 == 0 ? histogram : other).Add(i * 1e-3);
  histogram.Add(other);
  EXPECT_EQ(histogram.count(), 10'000);
  EXPECT_NEAR(histogram.mean(), 5.0005, 1e-9);
  EXPECT_EQ(histogram.max(), 10);
  for (const double share : {0.001, 0.1, 0.5, 0.9, 0.99}) {
    EXPECT_NEAR(histogram.Quantile(share), share * 10, share * 10 / 200) << share;
    EXPECT_NEAR(histogram.ShareWithin(share * 10), share, 0.005) << share;
  }
  EXPECT_LE(histogram.Quantile(1), 10);
}

}  // namespace
}  // namespace sluice
