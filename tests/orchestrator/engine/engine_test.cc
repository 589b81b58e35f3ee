// The engine over fake stages, without text: what clients get while the replica comes and goes.
#include "orchestrator/engine/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "tests/orchestrator/engine/recording_sink.h"
#include "tests/testing/fake_stages.h"

namespace sluice {
namespace {

using ::sluice::testing::FakeStages;
using ::sluice::testing::FakeStagesOptions;
using ::sluice::testing::FakeStep;
using ::sluice::testing::FakeTokens;
using ::sluice::testing::RecordingSink;
using ::testing::HasSubstr;

EngineRequest Request(std::vector<TokenId> prompt, int max_new_tokens, uint64_t seed = 1) {
  EngineRequest request;
  request.prompt = std::move(prompt);
  request.max_new_tokens = max_new_tokens;
  request.sampling.seed = seed;
  return request;
}

EngineOptions Options() {
  EngineOptions options;
  options.scheduler.max_positions = 64;
  options.scheduler.max_tokens_per_step = 16;
  options.hang_timeout = absl::InfiniteDuration();
  return options;
}

// Fakes and an engine over them.
struct Served {
  explicit Served(const EngineOptions& options = Options(),
                  const FakeStagesOptions& stages_options = {})
      : stages(stages_options, &dialer),
        engine(options,
               {.topology = stages.topology(), .model_fingerprint = stages_options.fingerprint},
               &dialer, nullptr) {}

  std::shared_ptr<RecordingSink> Submit(EngineRequest request) {
    auto sink = std::make_shared<RecordingSink>();
    last_id = engine.Submit(std::move(request), sink);
    return sink;
  }

  // Waits for `done` to hold of the engine's status, a minute at most.
  bool Await(const std::function<bool(const EngineStatus&)>& done) {
    const absl::Time deadline = absl::Now() + absl::Minutes(1);
    while (!done(engine.status())) {
      if (absl::Now() > deadline) return false;
      std::this_thread::yield();
    }
    return true;
  }

  Dialer dialer;
  FakeStages stages;
  Engine engine;
  RequestId last_id = 0;
};

TEST(Engine, KeepsRequestsUntilTheReplicaIsUp) {
  Served served(Options(), {.num_stages = 2, .num_ranks = 2});
  const auto sink = served.Submit(Request({3, 1, 4}, 12));
  ASSERT_TRUE(served.Await([](const auto& s) { return s.num_unadmitted_requests == 1; }));
  EXPECT_FALSE(served.engine.status().target().ready);
  EXPECT_EQ(sink->num_ends(), 0);
  served.stages.BringUpAll();
  ASSERT_TRUE(sink->Wait().ok()) << sink->Wait();
  EXPECT_EQ(sink->tokens(), FakeTokens({3, 1, 4}, 1, 0, 12));
  EXPECT_EQ(sink->end()->sequences[0].reason, EndReason::kLength);
}

TEST(Engine, RefusesMoreRequestsThanMayWaitForTheReplica) {
  EngineOptions options = Options();
  options.scheduler.max_queued_sequences = 2;
  Served served(options);
  const auto cancelled = served.Submit(Request({1}, 2));
  const RequestId first = served.last_id;
  const auto second = served.Submit(Request({2}, 2));
  const auto refused = served.Submit(Request({3}, 2));
  EXPECT_EQ(refused->Wait().code(), absl::StatusCode::kResourceExhausted);
  served.engine.Cancel(first);
  const auto third = served.Submit(Request({4}, 2));
  ASSERT_TRUE(served.Await([](const auto& s) { return s.num_unadmitted_requests == 2; }));
  served.stages.BringUpAll();
  EXPECT_TRUE(second->Wait().ok()) << second->Wait();
  EXPECT_TRUE(third->Wait().ok()) << third->Wait();
  EXPECT_EQ(third->tokens(), FakeTokens({4}, 1, 0, 2));
  EXPECT_EQ(cancelled->num_ends(), 0);
  EXPECT_EQ(cancelled->tokens(), std::vector<TokenId>{});
}

TEST(Engine, EndsARequestThatWaitsForTheReplicaAtItsDeadline) {
  Served served;
  EngineRequest request = Request({1}, 2);
  request.deadline = SteadyTime::Now();
  const absl::Status status = served.Submit(std::move(request))->Wait();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("is not ready: embedding at inproc:"));
}

TEST(Engine, TellsEveryRequestWhenItEnds) {
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  {
    Served served;
    sinks.push_back(served.Submit(Request({1}, 2)));  // waits for the replica
  }
  {
    Served served;
    served.stages.SetJudge([](const FakeStep&) { return FakeStages::Verdict::kIgnore; });
    served.stages.BringUpAll();
    sinks.push_back(served.Submit(Request({1}, 2)));  // its step is under way
    ASSERT_TRUE(
        served.Await([](const auto& s) { return s.target().scheduler.inflight_steps > 0; }));
  }
  for (const auto& sink : sinks) {
    EXPECT_EQ(sink->num_ends(), 1);
    EXPECT_EQ(sink->Wait().code(), absl::StatusCode::kUnavailable);
  }
}

TEST(Engine, RefusesAFullQueueAndATooLongPrompt) {
  EngineOptions options = Options();
  options.scheduler.max_queued_sequences = 2;
  Served served(options);
  served.stages.BringUpAll();
  ASSERT_TRUE(served.Await([](const auto& s) { return s.target().ready; }));
  EngineRequest several = Request({1}, 2);
  several.num_sequences = 3;
  EXPECT_EQ(served.Submit(several)->Wait().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(served.Submit(Request(std::vector<TokenId>(65, 1), 1))->Wait().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(served.Submit(Request({1}, 2))->Wait().ok());
  ASSERT_TRUE(served.Await([](const auto& s) {
    return s.target().scheduler.waiting_sequences + s.target().scheduler.running_sequences == 0;
  }));
}

// Loses the replica, or a step, now and then. The seed is fixed; steps that fail are few enough
// that no request is given up.
TEST(Engine, GivesTheSameTokensHoweverOftenTheReplicaIsLost) {
  for (const uint32_t seed : {1u, 2u, 3u}) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    EngineOptions options = Options();
    options.max_losses = 1000;
    Served served(options, {.num_stages = 2, .num_kv_blocks = 24});
    served.stages.SetJudge([random = std::mt19937(seed)](const FakeStep&) mutable {
      return random() % 5 == 0 ? FakeStages::Verdict::kLose : FakeStages::Verdict::kAnswer;
    });
    served.stages.BringUpAll();
    std::vector<std::shared_ptr<RecordingSink>> sinks;
    for (int i = 0; i < 6; ++i) {
      EngineRequest request = Request(std::vector<TokenId>(3 + 5 * i, i), 10 + i, 100 + i);
      request.num_sequences = 1 + i % 2;
      sinks.push_back(served.Submit(std::move(request)));
    }
    for (int i = 0; i < 6; ++i) {
      ASSERT_TRUE(sinks[i]->Wait().ok()) << sinks[i]->Wait();
      for (int index = 0; index < 1 + i % 2; ++index) {
        EXPECT_EQ(sinks[i]->tokens(index),
                  FakeTokens(std::vector<TokenId>(3 + 5 * i, i), 100 + i, index, 10 + i))
            << "request " << i << ", sequence " << index;
      }
    }
    EXPECT_GT(served.engine.status().target().num_recoveries, 0u);
  }
}

TEST(Engine, RecoversWhenAStageEndsRightAfterOpening) {
  EngineOptions options = Options();
  options.max_losses = 1000;
  Served served(options);
  served.stages.EndAfterOpen("sampler", 1);
  served.stages.EndAfterOpen("shard-0-0", 1);
  // The last to open: word of its end may come before, while or after the replica is ready.
  served.stages.EndAfterOpen("embedding", 6);
  served.stages.BringUpAll();
  const auto sink = served.Submit(Request({3, 1, 4}, 12));
  ASSERT_TRUE(sink->Wait().ok()) << sink->Wait();
  EXPECT_EQ(sink->tokens(), FakeTokens({3, 1, 4}, 1, 0, 12));
}

TEST(Engine, GivesUpAStepThatNeverCompletes) {
  EngineOptions options = Options();
  options.hang_timeout = absl::Milliseconds(100);
  Served served(options);
  auto num_ignored = std::make_shared<std::atomic<int>>(0);
  served.stages.SetJudge([num_ignored](const FakeStep& step) {
    const bool ignore = step.sequences[0].size() == 6 && num_ignored->fetch_add(1) == 0;
    return ignore ? FakeStages::Verdict::kIgnore : FakeStages::Verdict::kAnswer;
  });
  served.stages.BringUpAll();
  const auto sink = served.Submit(Request({3, 1, 4}, 12));
  ASSERT_TRUE(sink->Wait().ok()) << sink->Wait();
  EXPECT_EQ(sink->tokens(), FakeTokens({3, 1, 4}, 1, 0, 12));
  EXPECT_GE(num_ignored->load(), 2);
  EXPECT_GE(served.engine.status().target().num_recoveries, 1u);
}

TEST(Engine, GivesUpARequestThatLosesTheReplicaEveryTime) {
  EngineOptions options = Options();
  options.max_losses = 2;
  options.scheduler.max_sequences_per_step = 1;  // so that it alone is in the steps it spoils
  Served served(options);
  auto num_losses = std::make_shared<std::atomic<int>>(0);
  served.stages.SetJudge([num_losses](const FakeStep& step) {
    if (step.sequences[0][0] != 13) return FakeStages::Verdict::kAnswer;
    num_losses->fetch_add(1);
    return FakeStages::Verdict::kLose;
  });
  served.stages.BringUpAll();
  const auto before = served.Submit(Request({1, 2}, 9));
  const auto poison = served.Submit(Request({13}, 9));
  const auto after = served.Submit(Request({4, 5}, 9));
  const absl::Status status = poison->Wait();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), HasSubstr("lost 3 times"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("the shard gave up"));
  ASSERT_TRUE(before->Wait().ok()) << before->Wait();
  ASSERT_TRUE(after->Wait().ok()) << after->Wait();
  EXPECT_EQ(before->tokens(), FakeTokens({1, 2}, 1, 0, 9));
  EXPECT_EQ(after->tokens(), FakeTokens({4, 5}, 1, 0, 9));
  EXPECT_EQ(num_losses->load(), 3);
}

// All are in one batch, where nobody can say whose fault it is; the seed of the poison is its
// prompt.
TEST(Engine, FindsTheRequestThatKillsAmongItsBatchMatesAndEndsItAlone) {
  EngineOptions options = Options();
  options.max_losses = 2;
  Served served(options, {.num_stages = 2});
  const auto num_losses = std::make_shared<std::atomic<int>>(0);
  served.stages.SetJudge([num_losses](const FakeStep& step) {
    for (const std::vector<int32_t>& tokens : step.sequences) {
      if (tokens[0] != 13) continue;
      num_losses->fetch_add(1);
      return FakeStages::Verdict::kLose;
    }
    return FakeStages::Verdict::kAnswer;
  });
  std::vector<std::shared_ptr<RecordingSink>> mates;
  for (int i = 0; i < 4; ++i) mates.push_back(served.Submit(Request({1, 2, i}, 9)));
  const auto poison = served.Submit(Request({13, 5}, 9));
  for (int i = 4; i < 8; ++i) mates.push_back(served.Submit(Request({1, 2, i}, 9)));
  served.stages.BringUpAll();
  EXPECT_EQ(poison->Wait().code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(poison->Wait().message()), HasSubstr("with no other under way"));
  for (int i = 0; i < 8; ++i) {
    ASSERT_TRUE(mates[i]->Wait().ok()) << mates[i]->Wait();
    EXPECT_EQ(mates[i]->tokens(), FakeTokens({1, 2, i}, 1, 0, 9));
  }
  EXPECT_EQ(num_losses->load(), 3);
}

TEST(Engine, EndsWhatCannotGoOnWithAChangedReplicaAndServesWhatComesThen) {
  Served served;
  served.stages.BringUpAll();
  std::atomic<int> num_steps = 0;
  served.stages.SetJudge([&](const FakeStep&) {
    return ++num_steps == 3 ? FakeStages::Verdict::kIgnore : FakeStages::Verdict::kAnswer;
  });
  const auto open = served.Submit(Request({1, 2}, 12));
  ASSERT_TRUE(served.Await([&](const auto&) { return num_steps == 3; }));
  served.stages.ChangeInfo("shard-0-0", [](auto& info) { info.set_arithmetic("cpu/portable"); });
  served.stages.End("shard-0-0", absl::UnavailableError("restarting"));
  const absl::Status status = open->Wait();
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("came back with cpu/portable"));
  EXPECT_LT(open->tokens().size(), 12u);
  const auto next = served.Submit(Request({1, 2}, 12));
  ASSERT_TRUE(next->Wait().ok()) << next->Wait();
  EXPECT_EQ(next->tokens(), FakeTokens({1, 2}, 1, 0, 12));
}

TEST(Engine, GoesOnWithFewerBlocks) {
  Served served;
  served.stages.BringUpAll();
  std::atomic<int> num_steps = 0;
  served.stages.SetJudge([&](const FakeStep&) {
    return ++num_steps == 3 ? FakeStages::Verdict::kIgnore : FakeStages::Verdict::kAnswer;
  });
  const auto open = served.Submit(Request({1, 2}, 12));
  ASSERT_TRUE(served.Await([&](const auto&) { return num_steps == 3; }));
  served.stages.ChangeInfo("shard-0-0",
                           [](auto& info) { info.mutable_shard()->set_num_kv_blocks(5); });
  served.stages.End("shard-0-0", absl::UnavailableError("restarting"));
  ASSERT_TRUE(open->Wait().ok()) << open->Wait();
  EXPECT_EQ(open->tokens(), FakeTokens({1, 2}, 1, 0, 12));
  EXPECT_EQ(served.engine.status().target().scheduler.kv_cache.total_blocks, 5);
}

TEST(Engine, FailsARequestWhoseRowFailedAlone) {
  Served served;
  served.stages.SetRowError([](const std::vector<int32_t>& tokens) {
    return tokens[0] == 13 && tokens.size() == 4 ? "logits are not finite" : "";
  });
  served.stages.BringUpAll();
  const auto neighbour = served.Submit(Request({1, 2}, 9));
  const auto broken = served.Submit(Request({13}, 9));
  EXPECT_EQ(broken->Wait(), absl::InternalError("logits are not finite"));
  EXPECT_EQ(broken->tokens(), FakeTokens({13}, 1, 0, 3));
  ASSERT_TRUE(neighbour->Wait().ok()) << neighbour->Wait();
  EXPECT_EQ(neighbour->tokens(), FakeTokens({1, 2}, 1, 0, 9));
  EXPECT_EQ(served.engine.status().target().num_recoveries, 0u);
}

TEST(Engine, FreesWhatACancelledRequestHeld) {
  Served served;
  // Steps of the cancelled request do not complete from some point on, so that it can't end before.
  served.stages.SetJudge([](const FakeStep& step) {
    return step.sequences[0][0] == 13 && step.sequences[0].size() > 8
               ? FakeStages::Verdict::kIgnore
               : FakeStages::Verdict::kAnswer;
  });
  served.stages.BringUpAll();
  const auto sink = served.Submit(Request({13}, 40));
  ASSERT_TRUE(sink->WaitForChunk());
  EXPECT_GT(served.engine.status().target().scheduler.kv_cache.used_blocks, 0);
  served.engine.Cancel(served.last_id);
  ASSERT_TRUE(
      served.Await([](const auto& s) { return s.target().scheduler.kv_cache.used_blocks == 0; }));
  EXPECT_EQ(served.engine.status().target().scheduler.running_sequences, 0);
  EXPECT_EQ(sink->num_ends(), 0);
}

TEST(Engine, GoesOnAfterResumedTokens) {
  Served served;
  served.stages.BringUpAll();
  const std::vector<TokenId> whole = FakeTokens({3, 1, 4}, 1, 0, 12);
  EngineRequest request = Request({3, 1, 4}, 12);
  request.resumed = {std::vector<TokenId>(whole.begin(), whole.begin() + 5)};
  const auto sink = served.Submit(request);
  ASSERT_TRUE(sink->Wait().ok()) << sink->Wait();
  EXPECT_EQ(sink->tokens(), std::vector<TokenId>(whole.begin() + 5, whole.end()));
  EXPECT_EQ(sink->end()->sequences[0].num_tokens, 12);
  request.resumed = {whole};  // nothing is left to do
  const auto complete = served.Submit(request);
  ASSERT_TRUE(complete->Wait().ok()) << complete->Wait();
  EXPECT_EQ(complete->tokens(), std::vector<TokenId>{});
  EXPECT_EQ(complete->end()->sequences[0].reason, EndReason::kLength);
}

TEST(Engine, SaysWhenServingChanges) {
  auto changes = std::make_shared<std::vector<bool>>();  // of the engine's thread
  EngineOptions options = Options();
  options.on_serving_changed = [changes](bool serving) { changes->push_back(serving); };
  {
    Served served(options);
    served.stages.BringUpAll();
    ASSERT_TRUE(served.Await([](const auto& s) { return s.target().ready; }));
    const uint64_t epoch = served.engine.status().target().epoch;
    served.stages.End("embedding", absl::UnavailableError("gone"));
    ASSERT_TRUE(
        served.Await([&](const auto& s) { return s.target().ready && s.target().epoch > epoch; }));
    EXPECT_EQ(served.engine.status().target().num_recoveries, 1u);
  }
  ASSERT_FALSE(changes->empty());
  for (size_t i = 0; i < changes->size(); ++i) EXPECT_EQ((*changes)[i], i % 2 == 0);
  EXPECT_TRUE(changes->back());
}

TEST(Engine, BillsATenantForWorkOutsideOfStepsWhateverBecomesOfTheRequest) {
  EngineOptions options = Options();
  options.max_request_work = absl::Seconds(2);
  Served served(options);
  served.stages.SetJudge([](const FakeStep&) { return FakeStages::Verdict::kIgnore; });
  served.stages.BringUpAll();
  ASSERT_TRUE(served.Await([](const auto& s) { return s.target().ready; }));
  for (const char* tenant : {"costly", "other"}) {
    EngineRequest request = Request({1}, 2);
    request.tenant = tenant;
    served.Submit(std::move(request));
  }
  const std::shared_ptr<WorkMeter> meter = served.engine.MeterFor("costly");
  EXPECT_EQ(meter->left(), absl::Seconds(2));
  meter->Add(absl::Seconds(1));
  absl::Notification done;
  std::vector<TenantLedger> tenants;
  served.engine.Report({.all = true}, [&](const LedgerReport& report) {
    tenants = report.tenants;
    done.Notify();
  });
  done.WaitForNotification();
  ASSERT_EQ(tenants.size(), 2u);
  EXPECT_GT(tenants[0].served, tenants[1].served + 100) << "tokens' worth of a second";
}

}  // namespace
}  // namespace sluice
