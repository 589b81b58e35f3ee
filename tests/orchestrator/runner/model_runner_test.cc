// The loop of a served model in virtual time: what its owner is asked and told, and what becomes of
// steps when the replica is slow, wrong, lost, or comes back otherwise.
#include "orchestrator/runner/model_runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Answers with token 7 for every row when it is told to.
class ScriptedReplica final : public Replica {
 public:
  void BeReady(int32_t num_blocks = 16, bool kept_blocks = false, const std::string& changed = "") {
    events.emplace_back(ReplicaReady{++epoch, {4, num_blocks}, kept_blocks, changed});
  }
  void BeLost() {
    sent.clear();
    events.emplace_back(ReplicaLost{absl::UnavailableError("lost")});
  }
  void Answer() {
    events.emplace_back(std::move(sent.front()));
    sent.pop_front();
  }

  void Advance(SteadyTime) override {}
  SteadyTime NextWake() const override { return SteadyTime::InfiniteFuture(); }
  std::vector<ReplicaEvent> TakeEvents() override { return std::exchange(events, {}); }
  void Execute(const Step& step, absl::Span<const RowRequest> rows) override {
    StepExecuted executed = {.step = step.id, .rows = std::vector<RowResult>(rows.size())};
    for (RowResult& row : executed.rows) row.token = 7;
    sent.push_back(std::move(executed));
  }
  void MarkFailed(const absl::Status& status) override { given_up = status; }
  const Topology& topology() const override { return topology_; }
  std::shared_ptr<const std::vector<ReplicaProcess>> processes() const override {
    return std::make_shared<std::vector<ReplicaProcess>>(2);
  }

  uint64_t epoch = 0;
  std::deque<StepExecuted> sent;
  std::vector<ReplicaEvent> events;
  absl::Status given_up;

 private:
  const Topology topology_;
};

class ModelRunnerTest : public ::testing::Test, private ModelRunner::Owner {
 protected:
  ModelRunner& runner() {
    if (runner_ == nullptr) {
      options_.scheduler.max_positions = 100;
      Owner* const owner = this;
      runner_ = std::make_unique<ModelRunner>(options_, &replica_, owner);
    }
    return *runner_;
  }
  // One turn of the loop.
  void Turn(absl::Duration later = absl::ZeroDuration()) {
    now_ = now_ + later;
    runner().Advance(now_);
    runner().SendSteps(now_);
  }
  void Step(absl::Duration time) {
    replica_.Answer();
    Turn(time);
  }
  void Begin(SequenceId id, int32_t num_prompt = 4, int32_t max_new_tokens = 8) {
    SequenceSpec spec;
    spec.id = id;
    spec.prompt.assign(num_prompt, 3);
    spec.max_new_tokens = max_new_tokens;
    spec.use_prefix_cache = false;
    ASSERT_TRUE(runner().scheduler()->Add(std::move(spec)).ok());
  }
  void BeginServing(int32_t num_blocks = 16) {
    replica_.BeReady(num_blocks);
    Turn();
  }

  ScriptedReplica replica_;
  RunnerOptions options_;
  SteadyTime now_ = SteadyTime::FromStart(absl::Hours(1));
  bool held_back_ = false;
  bool constrained_ = false;
  std::vector<StepSample> samples_;
  std::vector<TokenId> tokens_;      // committed
  std::vector<std::string> events_;  // what its owner was told, in order
  std::vector<SequenceId> lost_, too_large_;
  absl::Duration mask_work_;

 private:
  void DescribeRows(const sluice::Step& step, std::vector<RowRequest>& rows) override {
    static const SamplingOptions kOptions;
    static const ConstraintSpec kConstraint;
    for (const Segment& segment : step.segments) {
      for (size_t i = 0; i < segment.rows.size(); ++i) {
        RowRequest& row = rows.emplace_back();
        row.sequence = segment.sequence;
        row.task = &kOptions;
        if (constrained_) row.constraint = &kConstraint;
      }
    }
  }
  void OnExecuted(const StepSample& sample) override { samples_.push_back(sample); }
  void OnMaskWork(SequenceId, absl::Duration work) override { mask_work_ += work; }
  void OnCommitted(StepOutcome outcome, std::vector<RowResult> rows) override {
    for (const AcceptedRow& accepted : outcome.rows) tokens_.push_back(rows[accepted.row].token);
  }
  bool HeldBackSince(SteadyTime) const override { return held_back_; }
  void OnChanged(const std::string& change) override {
    EXPECT_TRUE(runner().scheduler() == nullptr || runner().scheduler()->CheckIntegrity().ok());
    events_.push_back("changed: " + change);
  }
  void OnResized(const KvGeometry& geometry, int32_t before,
                 absl::Span<const SequenceId> too_large) override {
    events_.push_back("resized from " + std::to_string(before) + " to " +
                      std::to_string(geometry.num_blocks));
    too_large_.assign(too_large.begin(), too_large.end());
    for (const SequenceId id : too_large) {
      EXPECT_TRUE(runner().scheduler()->Finish(id, FinishReason::kFailed).ok());
    }
  }
  void OnReady() override { events_.emplace_back("ready"); }
  void OnLost(const absl::Status&, absl::Span<const SequenceId> in_flight, SteadyTime) override {
    events_.emplace_back("lost");
    lost_.assign(in_flight.begin(), in_flight.end());
  }
  void OnStandby(const absl::Status&, SteadyTime) override { events_.emplace_back("standby"); }

  std::unique_ptr<ModelRunner> runner_;
};

TEST_F(ModelRunnerTest, SendsWhatIsPlannedAndCommitsWhatComesBack) {
  Turn();
  EXPECT_EQ(runner().scheduler(), nullptr);
  EXPECT_FALSE(runner().ready());
  BeginServing();
  EXPECT_THAT(events_, ElementsAre("ready"));
  Begin(1);
  Turn();
  for (int i = 0; i < 8; ++i) {
    ASSERT_EQ(replica_.sent.size(), 1u) << i;
    Step(absl::Milliseconds(10));
  }
  EXPECT_THAT(replica_.sent, IsEmpty());
  EXPECT_TRUE(runner().idle());
  EXPECT_EQ(tokens_, std::vector<TokenId>(8, 7));
  const RunnerStatus status = runner().status();
  EXPECT_TRUE(status.ready);
  EXPECT_EQ(status.epoch, 1u);
  EXPECT_EQ(status.num_steps, 8u);
  EXPECT_EQ(status.scheduler.kv_cache.total_blocks, 16);
  EXPECT_EQ(status.processes->size(), 2u);
}

// ---- What steps take ----

TEST_F(ModelRunnerTest, AStepCostsThePauseBeforeItToo) {
  BeginServing();
  Begin(1);
  Turn();
  Step(absl::Milliseconds(10));
  ASSERT_EQ(samples_.size(), 1u);
  EXPECT_EQ(samples_[0].positions, 4);
  EXPECT_EQ(samples_[0].rows, 1);
  EXPECT_EQ(samples_[0].busy, absl::Milliseconds(10));
  // Its results come, and the next step is sent 3 ms later.
  replica_.Answer();
  now_ = now_ + absl::Milliseconds(10);
  runner().Advance(now_);
  now_ = now_ + absl::Milliseconds(3);
  runner().SendSteps(now_);
  Step(absl::Milliseconds(10));
  EXPECT_EQ(samples_.back().busy, absl::Milliseconds(10));
  EXPECT_EQ(samples_.back().cost, absl::Milliseconds(13));
  EXPECT_FALSE(samples_.back().ahead);
  held_back_ = true;
  replica_.Answer();
  now_ = now_ + absl::Milliseconds(10);
  runner().Advance(now_);
  now_ = now_ + absl::Milliseconds(3);
  runner().SendSteps(now_);
  Step(absl::Milliseconds(10));
  EXPECT_EQ(samples_.back().cost, absl::Milliseconds(10)) << "the pause was wanted";
}

TEST_F(ModelRunnerTest, AStepThatWasSentAheadIsMeasuredFromTheEndOfTheOneBefore) {
  options_.scheduler.steps_ahead = 1;
  BeginServing();
  Begin(1);
  Turn();
  ASSERT_EQ(replica_.sent.size(), 2u);
  Step(absl::Milliseconds(10));
  Step(absl::Milliseconds(8));
  ASSERT_EQ(samples_.size(), 2u);
  EXPECT_TRUE(samples_[1].ahead);
  EXPECT_EQ(samples_[1].latency, absl::Milliseconds(18));
  EXPECT_EQ(samples_[1].busy, absl::Milliseconds(8));
  EXPECT_EQ(samples_[1].cost, absl::Milliseconds(8));
}

// ---- A replica that does not do what it should ----

TEST_F(ModelRunnerTest, FailsAReplicaThatAnswersOutOfTurn) {
  BeginServing();
  Begin(1);
  Turn();
  replica_.sent.front().rows.emplace_back();
  Step(absl::Milliseconds(1));
  EXPECT_EQ(replica_.given_up.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(replica_.given_up.message()), HasSubstr("with 2 rows, out of turn"));
  EXPECT_FALSE(runner().CanSend());
  EXPECT_LE(runner().NextWake(), now_) << "its loss is to be taken";
  replica_.events.emplace_back(StepExecuted{.step = 1, .rows = std::vector<RowResult>(1)});
  Turn();
  EXPECT_THAT(tokens_, IsEmpty());
}

TEST_F(ModelRunnerTest, FailsAReplicaThatHangsAndIsMorePatientWithTheNext) {
  BeginServing();
  Begin(1);
  Turn();
  const absl::Duration bound = runner().NextWake() - now_;
  Turn(bound - absl::Milliseconds(1));
  EXPECT_TRUE(replica_.given_up.ok());
  Turn(absl::Milliseconds(1));
  EXPECT_EQ(replica_.given_up.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(runner().status().num_hangs, 1u);
  Turn(absl::Hours(1));
  EXPECT_EQ(runner().status().num_hangs, 1u) << "one step hangs once";
  replica_.BeLost();
  replica_.BeReady();
  Turn();
  EXPECT_EQ(runner().NextWake() - now_, 2 * bound);
}

// ---- A replica that is lost ----

TEST_F(ModelRunnerTest, GoesOnAfterALossWithTheTokensThatItHad) {
  options_.scheduler.steps_ahead = 1;
  BeginServing();
  Begin(1);
  Turn();
  for (int i = 0; i < 3; ++i) Step(absl::Milliseconds(1));
  replica_.BeLost();
  Turn();
  EXPECT_THAT(lost_, ElementsAre(1, 1)) << "it had a part in two steps";
  EXPECT_TRUE(runner().idle());
  EXPECT_FALSE(runner().ready());
  EXPECT_THAT(replica_.sent, IsEmpty());
  replica_.BeReady();
  Turn();
  EXPECT_EQ(runner().epoch(), 2u);
  EXPECT_THAT(events_, ElementsAre("ready", "lost", "ready"));
  while (!replica_.sent.empty()) Step(absl::Milliseconds(1));
  EXPECT_EQ(tokens_, std::vector<TokenId>(8, 7));
  EXPECT_GT(runner().status().scheduler.recomputed.after_loss, 0);
  EXPECT_EQ(runner().status().num_recoveries, 1u);
  EXPECT_EQ(runner().status().num_recoveries_with_blocks, 0u);
}

TEST_F(ModelRunnerTest, ComputesNothingAgainWhereTheBlocksWereKept) {
  BeginServing();
  Begin(1);
  Turn();
  for (int i = 0; i < 3; ++i) Step(absl::Milliseconds(1));
  replica_.BeLost();
  replica_.BeReady(16, /*kept_blocks=*/true);
  Turn();
  while (!replica_.sent.empty()) Step(absl::Milliseconds(1));
  EXPECT_EQ(tokens_, std::vector<TokenId>(8, 7));
  EXPECT_EQ(runner().status().scheduler.recomputed.after_loss, 0);
  EXPECT_EQ(runner().status().num_recoveries_with_blocks, 1u);
}

TEST_F(ModelRunnerTest, NamesTheSequencesThatASmallerPoolCannotHold) {
  BeginServing();
  Begin(1, 4, 8);
  Begin(2, 4, 50);
  Turn();
  Step(absl::Milliseconds(1));
  replica_.BeLost();
  replica_.BeReady(/*num_blocks=*/4);
  Turn();
  EXPECT_THAT(events_, ElementsAre("ready", "lost", "resized from 16 to 4", "ready"));
  EXPECT_THAT(too_large_, ElementsAre(2));
  tokens_.clear();
  while (!replica_.sent.empty()) Step(absl::Milliseconds(1));
  EXPECT_EQ(tokens_, std::vector<TokenId>(7, 7)) << "the other goes on";
  EXPECT_TRUE(runner().scheduler()->CheckIntegrity().ok());
}

TEST_F(ModelRunnerTest, BeginsAnewWithAReplicaOfOtherArithmetic) {
  BeginServing();
  Begin(1);
  Turn();
  replica_.BeLost();
  replica_.BeReady(16, false, "other arithmetic");
  Turn();
  EXPECT_THAT(events_, ElementsAre("ready", "lost", "changed: other arithmetic", "ready"));
  EXPECT_EQ(runner().scheduler()->statistics().running_sequences, 0);
  EXPECT_EQ(runner().scheduler()->statistics().waiting_sequences, 0);
  Begin(1);
  Turn();
  EXPECT_EQ(replica_.sent.size(), 1u);
}

TEST_F(ModelRunnerTest, PassesOnThatAnotherOrchestratorHasTheReplica) {
  replica_.events.emplace_back(ReplicaStandby{absl::AlreadyExistsError("another")});
  Turn();
  EXPECT_THAT(events_, ElementsAre("standby"));
  EXPECT_FALSE(runner().ready());
}

// ---- Masks that are not ready ----

TEST_F(ModelRunnerTest, ASequenceWhoseMaskIsNotReadySitsOutLongerEachTime) {
  constrained_ = true;
  BeginServing();
  Begin(1);
  Turn();
  for (const int pause : {1, 2, 4, 8, 16, 32, 50, 50}) {
    replica_.sent.front().rows[0].deferred = true;
    replica_.sent.front().rows[0].work = absl::Milliseconds(1);
    Step(absl::Milliseconds(1));
    EXPECT_THAT(replica_.sent, IsEmpty());
    EXPECT_TRUE(runner().awaits_returns());
    EXPECT_EQ(runner().NextWake(), now_ + absl::Milliseconds(pause));
    Turn(absl::Milliseconds(pause));
    ASSERT_EQ(replica_.sent.size(), 1u);
  }
  EXPECT_EQ(mask_work_, absl::Milliseconds(8));
  Step(absl::Milliseconds(1));
  EXPECT_THAT(tokens_, ElementsAre(7));
  replica_.sent.front().rows[0].deferred = true;
  Step(absl::Milliseconds(1));
  EXPECT_EQ(runner().NextWake(), now_ + absl::Milliseconds(1)) << "a token came meanwhile";
}

TEST_F(ModelRunnerTest, WaitsForNothingOnceASequenceIsLetInWhileTheReplicaIsLost) {
  constrained_ = true;
  BeginServing();
  Begin(1);
  Turn();
  replica_.sent.front().rows[0].deferred = true;
  Step(absl::Milliseconds(1));
  replica_.BeLost();
  Turn();
  EXPECT_LT(runner().NextWake(), SteadyTime::InfiniteFuture());
  Turn(absl::Seconds(1));
  EXPECT_EQ(runner().NextWake(), SteadyTime::InfiniteFuture()) << "the loop would spin";
  replica_.BeReady();
  Turn();
  EXPECT_EQ(replica_.sent.size(), 1u) << "the sequence takes part again";
}

}  // namespace
}  // namespace sluice
