// The engine in virtual time, over a replica that executes what it is told to when it is told to.
#include "orchestrator/engine/engine_core.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "services/messages/retry_info.h"
#include "tests/orchestrator/engine/recording_sink.h"
#include "tests/orchestrator/kv_cache/kv_cache_saboteur.h"

namespace sluice {
namespace {

using ::sluice::testing::RecordingSink;
using ::testing::HasSubstr;

// Chooses token 7 for every row.
class ObedientReplica final : public Replica {
 public:
  explicit ObedientReplica(int num_blocks) : geometry_{4, num_blocks} {
    topology_.shards = {{"a"}};
    events_.emplace_back(ReplicaReady{.epoch = 1, .geometry = geometry_});
  }

  // Executes the oldest step; false where there is none.
  bool ExecuteOne() {
    if (sent_.empty()) return false;
    events_.emplace_back(std::move(sent_.front()));
    sent_.pop_front();
    return true;
  }

  void Lose() {
    sent_.clear();
    events_.emplace_back(ReplicaLost{absl::UnavailableError("lost")});
  }
  void ComeBack() { events_.emplace_back(ReplicaReady{.epoch = 2, .geometry = geometry_}); }
  void ComeBackWith(int num_blocks) {
    geometry_.num_blocks = num_blocks;
    ComeBack();
  }
  // Before it was ever ready.
  void BeAnothers() {
    events_.clear();
    events_.emplace_back(ReplicaStandby{absl::AlreadyExistsError("orchestrator old has it")});
  }

  void Advance(SteadyTime) override {}
  SteadyTime NextWake() const override { return SteadyTime::InfiniteFuture(); }
  std::vector<ReplicaEvent> TakeEvents() override { return std::exchange(events_, {}); }
  void Execute(const Step& step, absl::Span<const RowRequest> rows) override {
    StepExecuted executed = {.step = step.id, .rows = std::vector<RowResult>(rows.size())};
    for (size_t i = 0; i < rows.size(); ++i) {
      RowResult& row = executed.rows[i];
      row.token = 7;
      if (rows[i].constraint == nullptr) continue;
      row.work = mask_work;
      row.deferred = num_deferrals > 0;
      if (row.deferred) row.token = 0;
      num_deferrals -= row.deferred ? 1 : 0;
      ++num_constrained_rows;
    }
    sent_.push_back(std::move(executed));
  }
  void MarkFailed(const absl::Status& status) override { ADD_FAILURE() << "given up: " << status; }
  const Topology& topology() const override { return topology_; }
  std::shared_ptr<const std::vector<ReplicaProcess>> processes() const override {
    return std::make_shared<std::vector<ReplicaProcess>>();
  }

  // Of rows with a constraint: the next so many have no mask yet; each took so much to make.
  int num_deferrals = 0;
  int num_constrained_rows = 0;
  absl::Duration mask_work;

 private:
  Topology topology_;
  KvGeometry geometry_;
  std::vector<ReplicaEvent> events_;
  std::deque<StepExecuted> sent_;
};

class EngineCoreTest : public ::testing::Test {
 protected:
  EngineCoreTest() {
    options_.scheduler.max_positions = 1000;
    options_.hang_timeout = absl::InfiniteDuration();
  }

  EngineCore& core() {
    if (core_ == nullptr) {
      core_ = std::make_unique<EngineCore>(options_, &replica_, nullptr);
      core_->Advance(now_);
    }
    return *core_;
  }

  EngineRequest Request(const std::string& name, int num_prompt, int max_new_tokens) {
    EngineRequest request;
    request.name = name;
    request.tenant = "someone";
    request.prompt = std::vector<TokenId>(num_prompt, 3);
    request.max_new_tokens = max_new_tokens;
    request.use_prefix_cache = false;
    request.arrived = now_;
    return request;
  }

  std::shared_ptr<RecordingSink> Submit(EngineRequest request) {
    auto sink = std::make_shared<RecordingSink>();
    core().Submit(++last_id_, std::move(request), sink);
    core().Advance(now_);
    return sink;
  }

  // Lets the time pass, then a step end.
  void Step(absl::Duration time = absl::Milliseconds(10)) {
    now_ = now_ + time;
    replica_.ExecuteOne();
    core().Advance(now_);
  }

  std::vector<RequestLedger> Named(const std::string& name) {
    return core().Report({.name = name}, now_).requests;
  }

  EngineOptions options_;
  ObedientReplica replica_{64};
  SteadyTime now_ = SteadyTime::FromStart(absl::Hours(1));
  std::unique_ptr<EngineCore> core_;
  RequestId last_id_ = 0;
};

TEST_F(EngineCoreTest, KeepsALedgerOfARequestFromItsArrivalBeyondItsEnd) {
  const auto sink = Submit(Request("asked", 6, 3));
  Step();
  const RequestLedger running = Named("asked").at(0);
  EXPECT_EQ(running.phase, RequestPhase::kRunning);
  EXPECT_EQ(running.tenant, "someone");
  ASSERT_EQ(running.sequences.size(), 1u);
  EXPECT_EQ(running.sequences[0].blocks.held, 2);
  EXPECT_EQ(running.sequences[0].usage.generated_tokens, 1);
  EXPECT_EQ(running.times.first_token, now_);
  Step();
  Step();
  ASSERT_TRUE(sink->end().has_value());
  const RequestLedger ended = Named("asked").at(0);
  EXPECT_EQ(ended.phase, RequestPhase::kEnded);
  EXPECT_EQ(ended.outcome, "ok");
  EXPECT_EQ(ended.detail, "length");
  EXPECT_EQ(ended.num_prompt_tokens(), 6);
  EXPECT_EQ(ended.num_generated_tokens(), 3);
  EXPECT_EQ(ended.sequences[0].usage.computed_positions, 8);
  EXPECT_EQ(*ended.times.ended - *ended.times.arrived, absl::Milliseconds(30));
  EXPECT_EQ(*ended.times.started, *ended.times.arrived);
}

TEST_F(EngineCoreTest, TellsHowOthersEnded) {
  Submit(Request("left", 6, 3));
  core().Cancel(last_id_);
  core().Advance(now_);
  EXPECT_EQ(Named("left").at(0).outcome, "cancelled");
  Submit(Request("too long", 2000, 3));
  EXPECT_EQ(Named("too long").at(0).outcome, "invalid_argument");
  EXPECT_THAT(Named("too long").at(0).detail, HasSubstr("exceed the context"));
  EXPECT_TRUE(Named("nobody").empty());
}

TEST_F(EngineCoreTest, ReportsAllOrThoseOfOneTenant) {
  Submit(Request("a", 6, 3));
  EngineRequest other = Request("b", 6, 3);
  other.tenant = "other";
  Submit(std::move(other));
  const LedgerReport all = core().Report({.all = true}, now_);
  ASSERT_EQ(all.requests.size(), 2u);
  EXPECT_EQ(all.requests[0].name, "a");
  EXPECT_EQ(all.tenants.size(), 2u);
  const LedgerReport some = core().Report({.all = true, .tenant = "other"}, now_);
  ASSERT_EQ(some.requests.size(), 1u);
  EXPECT_EQ(some.requests[0].name, "b");
  ASSERT_EQ(some.tenants.size(), 1u);
  EXPECT_EQ(some.tenants[0].num_running + some.tenants[0].num_waiting, 1);
}

TEST_F(EngineCoreTest, RemembersTheLatestThatEndedAndNoMore) {
  for (size_t i = 0; i < RequestHistory::kMostKept + 1; ++i) {
    Submit(Request(i == 0 ? "first" : "later", 2000, 1));
  }
  EXPECT_TRUE(Named("first").empty());
  EXPECT_EQ(Named("later").size(), RequestHistory::kMostKept);
}

// ---- What happens to a request ----

TEST_F(EngineCoreTest, NotesPreemptionsOfTheRequestsThatHadThem) {
  replica_ = ObedientReplica(/*num_blocks=*/8);  // 32 positions
  Submit(Request("first", 14, 12));
  EngineRequest urgent = Request("urgent", 14, 12);
  Step();
  urgent.priority = 1;
  Submit(urgent);
  for (int i = 0; i < 60; ++i) Step();
  const RequestLedger first = Named("first").at(0);
  const RequestLedger other = Named("urgent").at(0);
  EXPECT_EQ(first.outcome, "ok");
  ASSERT_GT(first.sequences.at(0).usage.preemptions, 0);
  ASSERT_EQ(static_cast<int32_t>(first.events.size()), first.sequences[0].usage.preemptions);
  EXPECT_EQ(first.events[0].kind, RequestEvent::Kind::kPreempted);
  EXPECT_GT(first.events[0].time, *first.times.started);
  EXPECT_LT(first.events[0].time, *first.times.ended);
  EXPECT_TRUE(other.events.empty());
}

TEST_F(EngineCoreTest, NotesThatTheReplicaWasLostAndIsBack) {
  Submit(Request("asked", 6, 3));
  Step();
  replica_.Lose();
  Step();
  const SteadyTime lost = now_;
  replica_.ComeBack();
  Step();
  while (Named("asked").at(0).phase != RequestPhase::kEnded) Step();
  const RequestLedger ended = Named("asked").at(0);
  ASSERT_EQ(ended.events.size(), 2u);
  EXPECT_EQ(ended.events[0].kind, RequestEvent::Kind::kReplicaLost);
  EXPECT_EQ(ended.events[0].time, lost);
  EXPECT_EQ(ended.events[1].kind, RequestEvent::Kind::kReplicaBack);
  EXPECT_GT(ended.events[1].time, lost);
}

// ---- Another pool ----

TEST_F(EngineCoreTest, GoesOnInASmallerPoolWithWhatThatHolds) {
  const auto begun = Submit(Request("begun", 6, 8));
  EngineRequest endless_request = Request("endless", 6, 1);
  endless_request.max_new_tokens.reset();
  const auto endless = Submit(endless_request);
  const auto too_large = Submit(Request("too large", 6, 200));
  for (int i = 0; i < 4; ++i) Step();
  EXPECT_GT(begun->tokens().size(), 0u);
  replica_.Lose();
  Step();
  replica_.ComeBackWith(8);  // of 4 positions: 32
  Step();
  const auto waiting = Submit(Request("waiting", 6, 3));
  while (waiting->num_ends() == 0 || begun->num_ends() == 0 || endless->num_ends() == 0) Step();
  EXPECT_EQ(begun->tokens(), std::vector<TokenId>(8, 7));
  EXPECT_EQ(waiting->tokens(), std::vector<TokenId>(3, 7));
  // One that was to have the whole pool ends with it: the last token is chosen and never computed.
  EXPECT_TRUE(endless->end().has_value());
  EXPECT_EQ(endless->tokens(), std::vector<TokenId>(32 - 6 + 1, 7));
  EXPECT_EQ(too_large->Wait().code(), absl::StatusCode::kAborted);
  EXPECT_THAT(std::string(too_large->Wait().message()),
              HasSubstr("8 blocks of 4 positions, instead of 64"));
  EXPECT_EQ(core().status().target().scheduler.kv_cache.total_blocks, 8);
  EXPECT_TRUE(core().scheduler()->CheckIntegrity().ok());
}

TEST_F(EngineCoreTest, UsesALargerPool) {
  const auto begun = Submit(Request("begun", 6, 8));
  Step();
  replica_.Lose();
  Step();
  replica_.ComeBackWith(100);
  while (begun->num_ends() == 0) Step();
  EXPECT_EQ(begun->tokens(), std::vector<TokenId>(8, 7));
  EXPECT_EQ(Submit(Request("large", 6, 350))->num_ends(), 0);
}

// ---- A predecessor ----

class SuccessorTest : public EngineCoreTest {
 protected:
  SuccessorTest() {
    options_.hold_time = absl::Seconds(60);
    options_.on_holding_changed = [this](bool holding) { holding_ = holding; };
    replica_.BeAnothers();
  }
  void StandByFor(absl::Duration time) {
    for (absl::Duration passed; passed < time; passed += absl::Seconds(1)) {
      replica_.BeAnothers();
      Step(absl::Seconds(1));
    }
  }

  bool holding_ = false;
};

TEST_F(SuccessorTest, HoldsRequestsUntilItHasTheReplica) {
  const auto held = Submit(Request("held", 6, 3));
  EXPECT_TRUE(holding_);
  StandByFor(absl::Seconds(30));
  EXPECT_EQ(held->num_ends(), 0);
  replica_.ComeBack();
  while (held->num_ends() == 0) Step();
  EXPECT_EQ(held->tokens(), std::vector<TokenId>(3, 7));
  EXPECT_FALSE(holding_) << "it serves";
}

TEST_F(SuccessorTest, RefusesRequestsAfterAWhileAndHoldsThemAgainLater) {
  const auto held = Submit(Request("held", 6, 3));
  StandByFor(absl::Seconds(61));
  EXPECT_EQ(held->Wait().code(), absl::StatusCode::kUnavailable);
  EXPECT_FALSE(holding_);
  EXPECT_EQ(Submit(Request("late", 6, 3))->num_ends(), 1);
  StandByFor(absl::Seconds(60));
  EXPECT_TRUE(holding_);
  EXPECT_EQ(Submit(Request("later", 6, 3))->num_ends(), 0);
}

TEST_F(SuccessorTest, DoesNotCountAsHoldingWhileStagesAreMissing) {
  StandByFor(absl::Seconds(2));
  EXPECT_TRUE(holding_);
  for (int i = 0; i < 4; ++i) Step(absl::Seconds(1));  // the replica says nothing
  EXPECT_FALSE(holding_);
  // The time that requests may be held begins when they are all there again.
  for (int i = 0; i < 100; ++i) Step(absl::Seconds(1));
  StandByFor(absl::Seconds(30));
  EXPECT_TRUE(holding_);
}

TEST_F(SuccessorTest, HoldsRequestsWhileItsOwnReplicaIsReplacedButNotOnceAnotherHasIt) {
  replica_.ComeBack();
  Step();
  const auto begun = Submit(Request("begun", 6, 30));
  replica_.Lose();
  Step();
  EXPECT_TRUE(holding_);
  Step(absl::Seconds(61));
  EXPECT_FALSE(holding_);
  EXPECT_EQ(begun->num_ends(), 0) << "those that have begun wait all the same";
  replica_.BeAnothers();
  Step();
  EXPECT_EQ(begun->Wait().code(), absl::StatusCode::kUnavailable);
}

TEST_F(EngineCoreTest, RefusesRequestsWhileItStandsByUnlessItIsToHoldThem) {
  replica_.BeAnothers();
  EXPECT_EQ(Submit(Request("asked", 6, 3))->Wait().code(), absl::StatusCode::kUnavailable);
}

TEST_F(EngineCoreTest, RecordsTheEndOfRequestsThatWaitForTheModel) {
  options_.scheduler.max_queued_sequences = 2;
  replica_.TakeEvents();  // it never becomes ready
  Submit(Request("left", 6, 3));
  core().Cancel(last_id_);
  EngineRequest late = Request("late", 6, 3);
  late.deadline = now_ + absl::Seconds(1);
  Submit(late);
  Submit(Request("waits", 6, 3));
  Submit(Request("too many", 6, 3));
  Step(absl::Seconds(2));
  EXPECT_EQ(Named("left").at(0).outcome, "cancelled");
  EXPECT_EQ(Named("late").at(0).outcome, "unavailable");
  EXPECT_EQ(Named("too many").at(0).outcome, "resource_exhausted");
  EXPECT_EQ(Named("waits").at(0).phase, RequestPhase::kWaiting);
}

// ---- Overload ----

class OverloadTest : public EngineCoreTest {
 protected:
  // One sequence at a time, each a step of 100 ms: ten turns a second once some were seen.
  void Load(int num_waiting) {
    options_.scheduler.max_sequences_per_step = 1;
    for (int i = 0; i < num_waiting + 12; ++i) Submit(Request("load", 4, 1));
    for (int i = 0; i < 12; ++i) Step(absl::Milliseconds(100));
  }
};

TEST_F(OverloadTest, RefusesWhatCannotBeServedInTimeAndSaysWhenToComeAgain) {
  Load(30);
  EngineRequest hurried = Request("hurried", 4, 1);
  hurried.deadline = now_ + absl::Seconds(1);
  const auto refused = Submit(hurried);
  EXPECT_EQ(refused->Wait().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused->Wait().message()), HasSubstr("after its deadline in 1s"));
  const auto delay = RetryDelay(refused->Wait());
  ASSERT_TRUE(delay.has_value());
  EXPECT_GT(*delay, absl::Seconds(1.5));
  EXPECT_LT(*delay, absl::Seconds(2.5));
  hurried.deadline = now_ + absl::Seconds(10);
  EXPECT_EQ(Submit(hurried)->num_ends(), 0);
}

TEST_F(OverloadTest, CarriesAHurriedRequestOfATenantWhoseTurnComesSooner) {
  Load(30);
  EngineRequest hurried = Request("hurried", 4, 1);
  hurried.tenant = "quiet";
  hurried.deadline = now_ + absl::Seconds(1);
  EXPECT_EQ(Submit(hurried)->num_ends(), 0);
}

TEST_F(OverloadTest, RefusesWhatCannotBeComputedInTime) {
  Load(0);
  EngineRequest longer = Request("long", 4, 50);
  longer.deadline = now_ + absl::Seconds(2);
  const auto refused = Submit(longer);
  EXPECT_EQ(refused->Wait().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused->Wait().message()),
              HasSubstr("would end in 5s at the soonest, after its deadline in 2s"));
  longer.stop_tokens = {7};
  EXPECT_EQ(Submit(longer)->num_ends(), 0) << "it may end sooner";
}

TEST_F(OverloadTest, SaysWithAFullQueueWhenHalfOfItWillBeGone) {
  options_.scheduler.max_queued_sequences = 42;
  Load(30);
  while (true) {
    const auto sink = Submit(Request("one more", 4, 1));
    if (sink->num_ends() == 0) continue;
    EXPECT_THAT(std::string(sink->Wait().message()), HasSubstr("the limit is 42"));
    const auto delay = RetryDelay(sink->Wait());
    ASSERT_TRUE(delay.has_value());
    EXPECT_GT(*delay, absl::Seconds(1.5));
    EXPECT_LT(*delay, absl::Seconds(2.7));
    return;
  }
}

TEST_F(OverloadTest, SaysASecondWhereNoRateIsKnown) {
  options_.scheduler.max_queued_sequences = 1;
  options_.scheduler.max_sequences_per_step = 1;
  Submit(Request("a", 4, 9));
  Submit(Request("b", 4, 9));
  EXPECT_EQ(RetryDelay(Submit(Request("c", 4, 9))->Wait()), absl::Seconds(1));
}

// ---- Clients that do not read ----

TEST_F(EngineCoreTest, PausesARequestWhoseClientDoesNotRead) {
  const auto sink = Submit(Request("slow", 6, 4));
  Step();
  core().SetBackpressured(last_id_, true);
  Step();  // what was under way comes
  for (int i = 0; i < 5; ++i) Step();
  EXPECT_EQ(Named("slow").at(0).phase, RequestPhase::kPaused);
  EXPECT_EQ(core().status().target().scheduler.kv_cache.used_blocks, 0);
  EXPECT_EQ(sink->tokens().size(), 2u);
  core().SetBackpressured(last_id_, false);
  core().Advance(now_);
  for (int i = 0; i < 5; ++i) Step();
  ASSERT_TRUE(sink->end().has_value());
  EXPECT_EQ(sink->tokens(), (std::vector<TokenId>{7, 7, 7, 7}));
  EXPECT_GT(Named("slow").at(0).sequences[0].usage.recomputed.after_pause, 0);
}

TEST_F(EngineCoreTest, EndsARequestWhoseClientHasNotReadForTooLong) {
  const auto sink = Submit(Request("slow", 6, 4));
  core().SetBackpressured(last_id_, true);
  Step();
  now_ = now_ + absl::Seconds(59);
  const SteadyTime wake = core().Advance(now_);
  EXPECT_EQ(sink->num_ends(), 0);
  EXPECT_LE(wake - now_, absl::Seconds(1));
  now_ = wake;
  core().Advance(now_);
  EXPECT_EQ(sink->Wait().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(sink->Wait().message()), HasSubstr("has not read for 1m"));
}

// ---- The books ----

TEST_F(EngineCoreTest, ChecksItsBooksOnceItHasNothingToDo) {
  Submit(Request("a", 6, 2));
  Step();
  EXPECT_EQ(core().status().num_integrity_checks, 0u);
  Step();
  EXPECT_EQ(core().status().num_integrity_checks, 1u);
  EXPECT_EQ(core().status().num_integrity_faults, 0u);
  EXPECT_EQ(core().Advance(now_), SteadyTime::InfiniteFuture()) << "nothing has changed since";
}

TEST_F(EngineCoreTest, CountsBooksThatAreWrong) {
  Submit(Request("a", 6, 2));
  Step();
  KvCacheSaboteur saboteur(core().scheduler()->kv_cache(), /*seed=*/1);
  ASSERT_TRUE(saboteur.Plant(PlantedBug::kLeakedReference));
  Step();
  EXPECT_EQ(core().status().num_integrity_faults, 1u);
}

// ---- Masks that take long ----

EngineRequest Constrained(EngineRequest request) {
  request.constraint = std::make_shared<const ConstraintSpec>();
  return request;
}

TEST_F(EngineCoreTest, ARequestWhoseMaskIsNotReadySitsOutWhileOthersGoOn) {
  replica_.num_deferrals = 3;
  const auto slow = Submit(Constrained(Request("slow", 6, 2)));
  const auto other = Submit(Request("other", 6, 4));
  for (int i = 0; i < 6 && !other->end().has_value(); ++i) Step(absl::Microseconds(100));
  ASSERT_TRUE(other->end().has_value()) << "it waited for another's mask";
  EXPECT_FALSE(slow->end().has_value());
  for (int i = 0; i < 20 && !slow->end().has_value(); ++i) Step(absl::Milliseconds(1));
  ASSERT_TRUE(slow->end().has_value());
  EXPECT_EQ(slow->end()->sequences.at(0).num_tokens, 2);
  EXPECT_EQ(core().scheduler()->statistics().running_sequences, 0);
}

TEST_F(EngineCoreTest, AsksLessOftenTheLongerAMaskTakes) {
  replica_.num_deferrals = 1'000'000;
  Submit(Constrained(Request("slow", 6, 2)));
  for (int i = 0; i < 1000; ++i) Step(absl::Milliseconds(1));
  EXPECT_LE(replica_.num_constrained_rows, 30) << "of a second";
  replica_.num_deferrals = 0;
  for (int i = 0; i < 60; ++i) Step(absl::Milliseconds(1));
  EXPECT_EQ(Named("slow").at(0).outcome, "ok");
}

TEST_F(EngineCoreTest, EndsARequestThatTakesMoreWorkThanOneMay) {
  options_.max_request_work = absl::Seconds(10);
  replica_.mask_work = absl::Seconds(4);
  EngineRequest request = Constrained(Request("costly", 6, 100));
  request.work = absl::Seconds(1);
  const auto costly = Submit(std::move(request));
  const auto other = Submit(Request("other", 6, 4));
  for (int i = 0; i < 8; ++i) Step();
  ASSERT_EQ(costly->num_ends(), 1);
  EXPECT_EQ(costly->Wait().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(costly->Wait().message()),
              HasSubstr("have taken 13s of processor time; accepted: up to 10s a request"));
  EXPECT_TRUE(other->end().has_value());
}

}  // namespace
}  // namespace sluice
