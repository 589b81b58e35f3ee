// A million random operations on small, tight schedulers, with a fake replica behind them:
// whatever is added, cancelled, failed, preempted, shared or lost meanwhile, every sequence ends
// with the tokens of its solo run, and every block comes back.
#include "tests/orchestrator/scheduler/random_schedule.h"

#include <gtest/gtest.h>

#include <iterator>
#include <string>
#include <vector>

#include "tests/orchestrator/kv_cache/kv_cache_saboteur.h"

namespace sluice {
namespace {

TEST(RandomSchedule, EverySequenceEndsWithTheTokensOfItsSoloRun) {
  Coverage coverage;
  for (uint32_t seed = 1; seed <= 2500; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    RandomSchedule schedule(seed, coverage);
    schedule.Operate(400);
    if (::testing::Test::HasFatalFailure()) return;
    schedule.Drain();
    if (::testing::Test::HasFatalFailure()) return;
  }
  // The schedules prove something only if they went everywhere.
  const auto went = [](const char* what, int64_t count, int64_t at_least) {
    ::testing::Test::RecordProperty(what, std::to_string(count));
    EXPECT_GE(count, at_least) << what;
  };
  went("steps", coverage.steps, 50'000);
  went("finished", coverage.finished, 10'000);
  went("preemptions", coverage.preemptions, 2'000);
  went("shared_positions", coverage.shared_positions, 10'000);
  went("abandoned", coverage.abandoned, 2'000);
  went("pauses", coverage.pauses, 5'000);
  went("resets", coverage.resets, 1'000);
  went("too_large", coverage.too_large, 100);
  went("ended_in_flight", coverage.ended_in_flight, 1'000);
  went("forks", coverage.forks, 10'000);
  went("cached_positions", coverage.cached_positions, 50'000);
  went("copied_blocks", coverage.copied_blocks, 5'000);
  went("evicted_blocks", coverage.evicted_blocks, 10'000);
  went("resumed", coverage.resumed, 1'000);
  went("scored_rows", coverage.scored_rows, 20'000);
  went("early_commits_refused", coverage.early_commits_refused, 1'000);
  went("full_queues", coverage.full_queues, 1'000);
  went("ahead", coverage.ahead, 20'000);
  went("chunks_ahead", coverage.chunks_ahead, 2'000);
  went("surplus", coverage.surplus, 2'000);
  went("drafted", coverage.drafted, 20'000);
  went("accepted_drafts", coverage.accepted_drafts, 5'000);
  went("other_lengths", coverage.other_lengths, 1'000);
  went("choices", coverage.choices, 10'000);
  went("deferred", coverage.deferred, 10'000);
  went("displaced", coverage.displaced, 1'000);
  went("copied_states", coverage.copied_states, 1'000);
  went("found_by_state", coverage.found_by_state, 10'000);
  went("forked_by_state", coverage.forked_by_state, 1'000);
  went("adapted", coverage.adapted, 5'000);
}

// Each kind of bug, planted into the books of a scheduler at work, is found at once.
TEST(RandomSchedule, PlantedBugsAreFound) {
  Coverage coverage;
  std::vector<PlantedBug> bugs(std::begin(kPlantedBugs), std::end(kPlantedBugs));
  bugs.insert(bugs.end(), std::begin(kPlantedStateBugs), std::end(kPlantedStateBugs));
  for (const PlantedBug bug : bugs) {
    int num_planted = 0;
    for (uint32_t seed = 1; seed <= 100; ++seed) {
      SCOPED_TRACE(::testing::Message() << "bug " << static_cast<int>(bug) << ", seed " << seed);
      RandomSchedule schedule(seed, coverage);
      schedule.Operate(80);
      if (::testing::Test::HasFatalFailure()) return;
      if (!KvCacheSaboteur(schedule.scheduler().kv_cache(), seed).Plant(bug)) continue;
      ++num_planted;
      EXPECT_EQ(schedule.scheduler().CheckIntegrity().code(), absl::StatusCode::kInternal);
    }
    EXPECT_GE(num_planted, 10) << static_cast<int>(bug);
  }
}

}  // namespace
}  // namespace sluice
