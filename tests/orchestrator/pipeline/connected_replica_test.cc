// Wiring a replica of fake stages: what is waited for, what is refused, what a loss leads to.
#include "orchestrator/pipeline/connected_replica.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "orchestrator/pipeline/grpc_stage_network.h"
#include "services/common/epoch.h"
#include "services/common/event_loop.h"
#include "tests/testing/fake_stages.h"

namespace sluice {
namespace {

using ::sluice::testing::FakeStages;
using ::sluice::testing::FakeStagesOptions;
using ::testing::HasSubstr;

bool Await(const std::function<bool()>& done) {
  const absl::Time deadline = absl::Now() + absl::Minutes(1);
  while (!done()) {
    if (absl::Now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

// A replica over fakes on a loop of its own, and what it has said.
class Wired final : private EventLoop::Task {
 public:
  struct Loss {
    uint64_t epoch = 0;
    absl::Status status;
  };

  explicit Wired(const FakeStagesOptions& options = {.num_stages = 2, .num_ranks = 2},
                 absl::Duration yield_time = absl::ZeroDuration())
      : stages(options, &dialer_),
        network_(&dialer_, loop_.post()),
        replica_({.topology = stages.topology(),
                  .model_fingerprint = options.fingerprint,
                  .max_step_tokens = 512,
                  .yield_time = yield_time},
                 &network_),
        processes_(replica_.processes()) {}
  ~Wired() override { Stop(); }

  // Begins to connect.
  void Start() { loop_.Start(this); }
  void Stop() { loop_.Stop(); }

  void Execute(const Step& step, const std::vector<RowRequest>& rows) {
    loop_.post()([this, step, rows] { replica_.Execute(step, rows); });
  }
  void MarkFailed(const absl::Status& status) {
    loop_.post()([this, status] { replica_.MarkFailed(status); });
  }
  std::vector<uint64_t> epochs() const {
    absl::MutexLock lock(&mutex_);
    return epochs_;
  }
  std::vector<Loss> losses() const {
    absl::MutexLock lock(&mutex_);
    return losses_;
  }
  KvGeometry geometry() const {
    absl::MutexLock lock(&mutex_);
    return geometry_;
  }
  std::string changed() const {
    absl::MutexLock lock(&mutex_);
    return changed_;
  }
  bool kept_blocks() const {
    absl::MutexLock lock(&mutex_);
    return kept_blocks_;
  }
  std::vector<StepId> executed() const {
    absl::MutexLock lock(&mutex_);
    return executed_;
  }
  std::vector<ReplicaProcess> processes() const {
    absl::MutexLock lock(&mutex_);
    return *processes_;
  }
  // What is wrong with the one process that is not ready; "" while there is another number of them,
  // or one has not been asked yet.
  std::string OnlyFault() const {
    std::string fault;
    for (const ReplicaProcess& process : processes()) {
      if (process.ready) continue;
      if (!fault.empty() || process.detail == "not reached yet") return "";
      fault = process.address + ": " + process.detail;
    }
    return fault;
  }

 private:
  SteadyTime Advance(SteadyTime now) override {
    replica_.Advance(now);
    absl::MutexLock lock(&mutex_);
    processes_ = replica_.processes();
    for (const ReplicaEvent& event : replica_.TakeEvents()) {
      if (const auto* ready = std::get_if<ReplicaReady>(&event)) {
        epochs_.push_back(ready->epoch);
        geometry_ = ready->geometry;
        changed_ = ready->changed;
        kept_blocks_ = ready->kept_blocks;
      } else if (const auto* executed = std::get_if<StepExecuted>(&event)) {
        executed_.push_back(executed->step);
      } else {
        losses_.push_back({epochs_.back(), std::get<ReplicaLost>(event).status});
      }
    }
    return replica_.NextWake();
  }

  Dialer dialer_;
  EventLoop loop_;

 public:
  FakeStages stages;

 private:
  GrpcStageNetwork network_;
  ConnectedReplica replica_;

  mutable absl::Mutex mutex_;
  std::vector<uint64_t> epochs_ ABSL_GUARDED_BY(mutex_);
  std::vector<Loss> losses_ ABSL_GUARDED_BY(mutex_);
  std::vector<StepId> executed_ ABSL_GUARDED_BY(mutex_);
  KvGeometry geometry_ ABSL_GUARDED_BY(mutex_);
  std::string changed_ ABSL_GUARDED_BY(mutex_);
  bool kept_blocks_ ABSL_GUARDED_BY(mutex_) = false;
  std::shared_ptr<const std::vector<ReplicaProcess>> processes_ ABSL_GUARDED_BY(mutex_);
};

TEST(ConnectedReplica, WaitsForEveryStageAndSaysWhichIsMissing) {
  Wired wired;
  for (const ReplicaProcess& process : wired.processes()) {
    EXPECT_FALSE(process.ready);
    EXPECT_EQ(process.detail, "not reached yet");
  }
  wired.Start();
  for (const std::string& name : wired.stages.names()) {
    if (name != "shard-1-0") wired.stages.BringUp(name);
  }
  ASSERT_TRUE(Await([&] { return !wired.OnlyFault().empty(); }));
  EXPECT_THAT(wired.OnlyFault(), HasSubstr("inproc:shard-1-0: no in-process server named"));
  EXPECT_TRUE(wired.epochs().empty());
  wired.stages.BringUp("shard-1-0");
  ASSERT_TRUE(Await([&] { return wired.epochs().size() == 1; }));
  for (const ReplicaProcess& process : wired.processes()) {
    EXPECT_TRUE(process.ready) << process.address << ": " << process.detail;
  }
  for (const std::string& name : wired.stages.names()) {
    EXPECT_EQ(wired.stages.epochs(name), wired.epochs()) << name;
  }
}

TEST(ConnectedReplica, TellsEachShardItsPlaceInTheWiring) {
  Wired wired;
  wired.stages.ChangeInfo("shard-0-1",
                          [](auto& info) { info.mutable_shard()->set_num_kv_blocks(40); });
  wired.stages.BringUpAll();
  wired.Start();
  ASSERT_TRUE(Await([&] { return wired.epochs().size() == 1; }));
  EXPECT_EQ(wired.geometry().num_blocks, 40);  // the smallest budget
  EXPECT_EQ(wired.geometry().block_size, 4);
  const v1::StageOpen first = wired.stages.last_open("shard-0-0");
  const v1::StageOpen second = wired.stages.last_open("shard-0-1");
  const v1::StageOpen last = wired.stages.last_open("shard-1-0");
  EXPECT_EQ(first.next_stage(), "inproc:shard-1-0");
  EXPECT_EQ(last.next_stage(), "inproc:sampler");
  EXPECT_EQ(first.shard().num_kv_blocks(), 40);
  EXPECT_EQ(first.shard().communicator_name(), second.shard().communicator_name());
  EXPECT_NE(first.shard().communicator_name(), last.shard().communicator_name());
  EXPECT_EQ(second.shard().rendezvous_address(), "inproc:shard-0-0");
  EXPECT_EQ(first.shard().communicator(), v1::COMMUNICATOR_KIND_SHM);
}

TEST(ConnectedReplica, DrawsAnIdentityForEveryWiring) {
  Wired wired;
  wired.stages.BringUpAll();
  wired.Start();
  std::set<std::string> nonces, names;
  for (size_t epochs = 1; epochs <= 3; ++epochs) {
    ASSERT_TRUE(Await([&] { return wired.epochs().size() == epochs; }));
    for (const char* shard : {"shard-0-0", "shard-0-1", "shard-1-1"}) {
      const v1::StageOpen open = wired.stages.last_open(shard);
      EXPECT_EQ(open.wiring_nonce().size(), 16u);
      EXPECT_EQ(open.model_fingerprint(), "fake-model");
      nonces.insert(open.wiring_nonce());
      names.insert(open.shard().communicator_name());
    }
    EXPECT_EQ(nonces.size(), epochs) << "one for all stages";
    EXPECT_EQ(names.size(), 2 * epochs) << "one for each stage";
    wired.stages.End("shard-0-0", absl::UnavailableError("again"));
  }
  for (const std::string& name : names) {
    for (const std::string& nonce : nonces) {
      EXPECT_EQ(name.find(absl::BytesToHexString(nonce)), std::string::npos) << "names are public";
    }
  }
}

// Whoever answers at a stage's address in another wiring's name is not sent a step.
TEST(ConnectedReplica, DoesNotCountAStageOfAnotherWiringAsOpen) {
  for (const char* name : {"embedding", "shard-1-0", "sampler"}) {
    Wired wired;
    wired.stages.BringUpAll();
    wired.stages.AnswerAsAnotherWiring(name, true);
    wired.Start();
    ASSERT_TRUE(Await([&] { return wired.stages.epochs(name).size() >= 3; })) << name;
    EXPECT_TRUE(wired.epochs().empty()) << name;
    wired.stages.AnswerAsAnotherWiring(name, false);
    EXPECT_TRUE(Await([&] { return wired.epochs().size() == 1; })) << name;
  }
}

struct Misfit {
  std::string name;
  std::string process;
  void (*change)(v1::GetStageInfoResponse&);
  std::string message;  // a part of it
};

class MisfitTest : public ::testing::TestWithParam<Misfit> {};

TEST_P(MisfitTest, IsNamedAndNotWiredUntilItFits) {
  Wired wired;
  v1::GetStageInfoResponse right;
  wired.stages.ChangeInfo(GetParam().process, [&](auto& info) {
    right = info;
    GetParam().change(info);
  });
  wired.stages.BringUpAll();
  wired.Start();
  ASSERT_TRUE(Await([&] { return !wired.OnlyFault().empty(); }));
  EXPECT_THAT(wired.OnlyFault(), HasSubstr("inproc:" + GetParam().process + ": "));
  EXPECT_THAT(wired.OnlyFault(), HasSubstr(GetParam().message));
  EXPECT_TRUE(wired.epochs().empty());
  wired.stages.ChangeInfo(GetParam().process, [&](auto& info) { info = right; });
  EXPECT_TRUE(Await([&] { return wired.epochs().size() == 1; }));
}

INSTANTIATE_TEST_SUITE_P(
    All, MisfitTest,
    ::testing::ValuesIn(std::vector<Misfit>{
        {"EmbeddingOfAnotherModel", "embedding", [](auto& i) { i.set_model_fingerprint("other"); },
         "fingerprint other, expected fake-model"},
        {"SamplerOfAnotherModel", "sampler", [](auto& i) { i.set_model_fingerprint("other"); },
         "fingerprint other, expected fake-model"},
        {"ShardOfAnotherModel", "shard-1-1", [](auto& i) { i.set_model_fingerprint("other"); },
         "fingerprint other, expected fake-model"},
        {"AnotherKind", "embedding", [](auto& i) { i.mutable_sampler(); },
         "its kind of stage is sampler, expected embedding"},
        {"NoKind", "shard-1-1", [](auto& i) { i.clear_kind(); },
         "its kind of stage is unknown, expected shard"},
        {"WrongRank", "shard-1-1", [](auto& i) { i.mutable_shard()->set_rank(0); },
         "rank 0 of 2; expected stage 1 of 2, rank 1 of 2"},
        {"WrongStage", "shard-1-1", [](auto& i) { i.mutable_shard()->set_stage(0); },
         "stage 0 of 2, rank 1 of 2; expected stage 1 of 2"},
        {"WrongNumberOfRanks", "shard-0-1", [](auto& i) { i.mutable_shard()->set_num_ranks(4); },
         "rank 1 of 4"},
        {"WrongNumberOfStages", "shard-0-1", [](auto& i) { i.mutable_shard()->set_num_stages(3); },
         "stage 0 of 3"},
        {"OtherBlockSize", "shard-1-1", [](auto& i) { i.mutable_shard()->set_block_size(8); },
         "blocks hold 8 positions, those of other shards 4"},
        {"NoBlocks", "shard-1-1", [](auto& i) { i.mutable_shard()->set_num_kv_blocks(0); },
         "it has 0 blocks; accepted: 1 to 67108864"},
        {"MoreBlocksThanBooksAreKeptOf", "shard-1-1",
         [](auto& i) { i.mutable_shard()->set_num_kv_blocks(2'000'000'000); },
         "it has 2000000000 blocks"},
        {"OneState", "shard-1-0", [](auto& i) { i.mutable_shard()->set_num_state_slots(1); },
         "it has 1 slots for states; accepted: 0, or 2 to 67108864"},
        {"BlocksOfNoSize", "shard-0-0", [](auto& i) { i.mutable_shard()->set_block_size(-4); },
         "its blocks hold -4 positions; accepted: 1 to 65536"},
        {"SmallerSteps", "shard-1-0", [](auto& i) { i.mutable_shard()->set_max_step_tokens(256); },
         "steps of up to 256 positions, the orchestrator plans up to 512"},
        {"OtherArithmetic", "shard-1-1", [](auto& i) { i.set_arithmetic("cpu/portable"); },
         "it computes with cpu/portable, other shards with fake; the bits would differ"},
        {"EpochOfNoStage", "shard-1-1", [](auto& i) { i.set_epoch(~uint64_t{0}); },
         "it reports epoch 18446744073709551615; accepted: below 4611686018427387904"},
        {"OtherWeights", "shard-1-1", [](auto& i) { i.set_weights_digest("0123456789abcdef0"); },
         "its weight files hold other weights (SHA-256 0123456789abcdef) than those of embedding "
         "at "
         "inproc:embedding (of none)"},
    }),
    [](const auto& info) { return info.param.name; });

TEST(ConnectedReplica, IsLostOnceWithAnyStageAndWiredAnewUnderALargerEpoch) {
  Wired wired;
  wired.stages.BringUpAll();
  wired.Start();
  size_t round = 0;
  for (const std::string& name : wired.stages.names()) {
    ++round;
    SCOPED_TRACE(name);
    ASSERT_TRUE(Await([&] { return wired.epochs().size() == round; }));
    wired.stages.End(name, absl::DataLossError("memory went bad"));
    ASSERT_TRUE(Await([&] { return wired.losses().size() == round; }));
    const Wired::Loss loss = wired.losses().back();
    EXPECT_EQ(loss.epoch, wired.epochs()[round - 1]);
    EXPECT_EQ(loss.status.code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(loss.status.message()), HasSubstr("inproc:" + name));
    EXPECT_THAT(std::string(loss.status.message()), HasSubstr("memory went bad"));
  }
  ASSERT_TRUE(Await([&] { return wired.epochs().size() == round + 1; }));
  EXPECT_EQ(wired.losses().size(), round);
  const std::vector<uint64_t> epochs = wired.epochs();
  for (size_t i = 1; i < epochs.size(); ++i) EXPECT_GT(epochs[i], epochs[i - 1]);
}

TEST(ConnectedReplica, TakesNoAnswersFromOtherStagesThanTheSampler) {
  const SamplingOptions options;
  for (const std::string name : {"embedding", "shard-0-0"}) {
    Wired wired;
    wired.stages.AnswerPlans(name);
    wired.stages.BringUpAll();
    wired.Start();
    ASSERT_TRUE(Await([&] { return wired.epochs().size() == 1; })) << name;
    Step step{.id = 1};
    step.segments.push_back(
        {.sequence = 7, .tokens = {0}, .sequence_length = 1, .blocks = {1}, .rows = {Row()}});
    wired.Execute(step, {{.sequence = 7, .position = 1, .task = &options}});
    ASSERT_TRUE(Await([&] { return wired.losses().size() == 1; })) << name;
    EXPECT_EQ(wired.losses()[0].status.code(), absl::StatusCode::kAborted);
    EXPECT_THAT(std::string(wired.losses()[0].status.message()),
                AllOf(HasSubstr("inproc:" + name), HasSubstr("which was not sent")));
    EXPECT_TRUE(wired.executed().empty());
  }
}

TEST(ConnectedReplica, TriesAgainWhereAStageRefusesToOpen) {
  Wired wired;
  wired.stages.RefuseOpen("shard-1-1", absl::ResourceExhaustedError("no memory for blocks"));
  wired.stages.BringUpAll();
  wired.Start();
  // Opened from the sampler backwards: these are reached, the embedding is not.
  ASSERT_TRUE(Await([&] { return wired.stages.epochs("sampler").size() >= 2; }));
  EXPECT_TRUE(wired.stages.epochs("embedding").empty());
  EXPECT_TRUE(wired.epochs().empty());
  wired.stages.RefuseOpen("shard-1-1", absl::OkStatus());
  ASSERT_TRUE(Await([&] { return wired.epochs().size() == 1; }));
  EXPECT_TRUE(wired.losses().empty());
}

TEST(ConnectedReplica, LogsReasonsThatTakeTurnsOnceEach) {
  const auto count = [](const std::string& log, const std::string& text) {
    int times = 0;
    for (size_t at = log.find(text); at != std::string::npos; at = log.find(text, at + 1)) ++times;
    return times;
  };
  ::testing::internal::CaptureStderr();
  Wired wired;
  const auto refuse_rounds = [&](int rounds) {
    for (int round = 0; round < rounds; ++round) {
      wired.stages.RefuseOpen("shard-0-0", absl::InternalError(round % 2 == 0 ? "one" : "two"));
      const size_t seen = wired.stages.epochs("sampler").size();
      // The second stream that is opened from now on is refused so.
      ASSERT_TRUE(Await([&] { return wired.stages.epochs("sampler").size() >= seen + 2; }));
    }
    wired.stages.RefuseOpen("shard-0-0", absl::OkStatus());
  };
  wired.stages.BringUpAll();
  wired.stages.RefuseOpen("shard-0-0", absl::InternalError("one"));
  wired.Start();
  refuse_rounds(4);
  ASSERT_TRUE(Await([&] { return wired.epochs().size() == 1; }));
  // It was ready in between: that it is not any more is news.
  wired.stages.RefuseOpen("shard-0-0", absl::InternalError("one"));
  wired.stages.End("sampler", absl::UnavailableError("restarting"));
  refuse_rounds(1);
  ASSERT_TRUE(Await([&] { return wired.epochs().size() == 2; }));
  wired.Stop();
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(count(log, ": one\""), 2) << log;
  EXPECT_EQ(count(log, ": two\""), 1) << log;
}

// A predecessor that has lost them finds them meanwhile, and its streams go on.
TEST(ConnectedReplica, LeavesStagesThatItHasNeverHadToAPredecessorForAWhile) {
  const absl::Duration yield_time = absl::Milliseconds(300);
  Wired wired({.num_stages = 1}, yield_time);
  wired.stages.BringUpAll();
  const absl::Time began = absl::Now();
  wired.Start();
  ASSERT_TRUE(Await([&] { return wired.epochs().size() == 1; }));
  EXPECT_GE(absl::Now() - began, yield_time);
  EXPECT_EQ(wired.stages.epochs("sampler").size(), 1u);
}

TEST(ConnectedReplica, ComesBackWithTheBlocksThatTheShardsHaveNow) {
  Wired wired;
  wired.stages.BringUpAll();
  wired.Start();
  ASSERT_TRUE(Await([&] { return wired.epochs().size() == 1; }));
  EXPECT_EQ(wired.changed(), "");
  wired.stages.ChangeInfo("shard-0-0",
                          [](auto& info) { info.mutable_shard()->set_num_kv_blocks(63); });
  wired.stages.End("shard-0-0", absl::UnavailableError("restarting"));
  ASSERT_TRUE(Await([&] { return wired.epochs().size() == 2; }));
  EXPECT_EQ(wired.changed(), "");
  EXPECT_FALSE(wired.kept_blocks());
  EXPECT_EQ(wired.geometry().num_blocks, 63);
  EXPECT_EQ(wired.stages.last_open("shard-1-1").shard().num_kv_blocks(), 63);
  // From now on that is what it has.
  wired.stages.End("sampler", absl::UnavailableError("restarting"));
  ASSERT_TRUE(Await([&] { return wired.epochs().size() == 3; }));
  EXPECT_EQ(wired.geometry().num_blocks, 63);
  wired.stages.ChangeInfo("shard-0-0",
                          [](auto& info) { info.mutable_shard()->set_num_kv_blocks(64); });
  wired.stages.End("shard-0-0", absl::UnavailableError("restarting"));
  ASSERT_TRUE(Await([&] { return wired.epochs().size() == 4; }));
  EXPECT_EQ(wired.geometry().num_blocks, 64);
}

// While it could not be heard, another orchestrator opened a shard under the very epoch that this one
// tried next, and computed.
TEST(ConnectedReplica, TakesNoBlocksForItsOwnThatAnotherOrchestratorMayHaveWritten) {
  for (const bool taken : {false, true}) {
    SCOPED_TRACE(taken ? "taken by another" : "never taken");
    Wired wired({.num_stages = 1});
    wired.stages.ChangeInfo("shard-0-0", [](auto& info) { info.set_tenure(7); });
    wired.stages.BringUpAll();
    wired.Start();
    ASSERT_TRUE(Await([&] { return wired.epochs().size() == 1; }));
    const uint64_t next = wired.epochs()[0] + 1;
    wired.stages.ChangeInfo("shard-0-0", [&](auto& info) { info.set_epoch(next - 1); });
    wired.stages.RefuseOpen("shard-0-0", absl::UnavailableError("unreachable"));
    wired.stages.End("sampler", absl::UnavailableError("restarting"));
    ASSERT_TRUE(Await([&] { return wired.stages.last_open("shard-0-0").epoch() == next; }));
    wired.stages.ChangeInfo("shard-0-0", [&](auto& info) {
      info.set_epoch(next);
      if (taken) info.set_tenure(8);
    });
    wired.stages.RefuseOpen("shard-0-0", absl::OkStatus());
    ASSERT_TRUE(Await([&] { return wired.epochs().size() == 2; }));
    EXPECT_EQ(wired.kept_blocks(), !taken);
    EXPECT_EQ(wired.stages.last_open("shard-0-0").orchestrator_nonce().size(), 16u);
  }
}

// Between the answer before Open and the one after it.
TEST(ConnectedReplica, AsksOnceMoreWhoseTheBlocksAreAfterItOpened) {
  Wired wired({.num_stages = 1});
  wired.stages.ChangeInfo("shard-0-0", [](auto& info) { info.set_tenure(7); });
  wired.stages.BringUpAll();
  wired.Start();
  ASSERT_TRUE(Await([&] { return wired.epochs().size() == 1; }));
  wired.stages.ChangeInfo("shard-0-0", [](auto& info) { info.set_epoch(1); });
  wired.stages.ReplaceOnOpen("shard-0-0", [](auto& info) { info.set_tenure(8); });
  wired.stages.End("sampler", absl::UnavailableError("restarting"));
  ASSERT_TRUE(Await([&] { return wired.epochs().size() == 2; }));
  EXPECT_FALSE(wired.kept_blocks());
  wired.stages.ChangeInfo("shard-0-0", [](auto& info) { info.set_epoch(2); });
  wired.stages.End("sampler", absl::UnavailableError("restarting"));
  ASSERT_TRUE(Await([&] { return wired.epochs().size() == 3; }));
  EXPECT_TRUE(wired.kept_blocks());
}

TEST(ConnectedReplica, SaysWhereAProcessComesBackWithOtherArithmetic) {
  for (const std::string name : {"shard-0-0", "sampler"}) {
    SCOPED_TRACE(name);
    Wired wired({.num_stages = 1});
    wired.stages.BringUpAll();
    wired.Start();
    ASSERT_TRUE(Await([&] { return wired.epochs().size() == 1; }));
    wired.stages.ChangeInfo(name, [](auto& info) { info.set_arithmetic("cpu/portable"); });
    wired.stages.End(name, absl::UnavailableError("restarting"));
    ASSERT_TRUE(Await([&] { return wired.epochs().size() == 2; }));
    EXPECT_THAT(wired.changed(),
                HasSubstr("at inproc:" + name + " came back with cpu/portable, instead of fake"));
    EXPECT_FALSE(wired.kept_blocks());
  }
}

TEST(ConnectedReplica, SaysThatProcessesCameBackWithOtherWeights) {
  Wired wired({.num_stages = 1});
  wired.stages.BringUpAll();
  wired.Start();
  ASSERT_TRUE(Await([&] { return wired.epochs().size() == 1; }));
  for (const std::string& name : wired.stages.names()) {
    wired.stages.ChangeInfo(name, [](auto& info) { info.set_weights_digest("ab"); });
  }
  wired.stages.End("sampler", absl::UnavailableError("restarting"));
  ASSERT_TRUE(Await([&] { return wired.epochs().size() == 2; }));
  EXPECT_THAT(wired.changed(), HasSubstr("came back with other weights"));
  EXPECT_FALSE(wired.kept_blocks());
}

// Two of them would compute one layer.
TEST(ConnectedReplica, WaitsWhileShardsDifferInTheirArithmetic) {
  Wired wired({.num_stages = 1, .num_ranks = 2});
  wired.stages.BringUpAll();
  wired.Start();
  ASSERT_TRUE(Await([&] { return wired.epochs().size() == 1; }));
  wired.stages.ChangeInfo("shard-0-1", [](auto& info) { info.set_arithmetic("cpu/portable"); });
  wired.stages.End("shard-0-1", absl::UnavailableError("restarting"));
  ASSERT_TRUE(Await([&] { return !wired.OnlyFault().empty(); }));
  EXPECT_EQ(wired.OnlyFault(),
            "inproc:shard-0-1: it computes with cpu/portable, other shards with fake; the bits "
            "would differ");
  wired.stages.ChangeInfo("shard-0-0", [](auto& info) { info.set_arithmetic("cpu/portable"); });
  ASSERT_TRUE(Await([&] { return wired.epochs().size() == 2; }));
  EXPECT_THAT(wired.changed(), HasSubstr("came back with cpu/portable"));
}

TEST(ConnectedReplica, BringsBackTheResultsOfSteps) {
  const SamplingOptions options;
  Wired wired;
  wired.stages.BringUpAll();
  wired.Start();
  ASSERT_TRUE(Await([&] { return wired.epochs().size() == 1; }));
  for (StepId id = 1; id <= 3; ++id) {
    Step step;
    step.id = id;
    step.segments.push_back({.sequence = 7,
                             .first_position = static_cast<int32_t>(id) - 1,
                             .tokens = {5},
                             .blocks = {2},
                             .rows = {{.offset = 0}}});
    wired.Execute(step, {{.sequence = 7, .position = static_cast<int32_t>(id), .task = &options}});
  }
  ASSERT_TRUE(Await([&] { return wired.executed().size() == 3; }));
  EXPECT_EQ(wired.executed(), (std::vector<StepId>{1, 2, 3}));
}

TEST(ConnectedReplica, CountsAsLostOnceItIsGivenUp) {
  Wired wired;
  wired.stages.BringUpAll();
  wired.Start();
  ASSERT_TRUE(Await([&] { return wired.epochs().size() == 1; }));
  wired.MarkFailed(absl::DeadlineExceededError("it hangs"));
  ASSERT_TRUE(Await([&] { return wired.epochs().size() == 2; }));
  ASSERT_EQ(wired.losses().size(), 1u);
  EXPECT_EQ(wired.losses()[0].status, absl::DeadlineExceededError("it hangs"));
}

// Such as those that a former orchestrator gave.
TEST(ConnectedReplica, GoesOnFromTheNewestEpochThatAStageKnows) {
  Wired wired;
  wired.stages.ChangeInfo("shard-1-0", [](auto& info) { info.set_epoch(41); });
  wired.stages.BringUpAll();
  wired.Start();
  ASSERT_TRUE(Await([&] { return wired.epochs().size() == 1; }));
  EXPECT_EQ(wired.epochs()[0], 42u);
}

TEST(ConnectedReplica, CountsFromTheBeginningAfterTheLastEpoch) {
  Wired wired;
  wired.stages.ChangeInfo("shard-1-0", [](auto& info) { info.set_epoch(kMaxEpoch - 1); });
  wired.stages.BringUpAll();
  wired.Start();
  ASSERT_TRUE(Await([&] { return wired.epochs().size() == 1; }));
  EXPECT_EQ(wired.epochs()[0], kMaxEpoch);
  // What a stage reports once it has been opened under the last one.
  wired.stages.ChangeInfo("shard-1-0", [](auto& info) { info.set_epoch(0); });
  wired.stages.End("shard-1-0", absl::UnavailableError("restarting"));
  ASSERT_TRUE(Await([&] { return wired.epochs().size() == 2; }));
  EXPECT_EQ(wired.epochs()[1], 1u);
  EXPECT_FALSE(wired.kept_blocks());
}

// It answered the questions of one process, and another was opened.
TEST(ConnectedReplica, UsesNoProcessThatWasReplacedWhileItWasOpened) {
  for (const char* name : {"embedding", "shard-0-1", "sampler"}) {
    SCOPED_TRACE(name);
    Wired wired;
    v1::GetStageInfoResponse right;
    wired.stages.ChangeInfo(name, [&](auto& info) { right = info; });
    wired.stages.ReplaceOnOpen(name, [](auto& info) { info.set_weights_digest("other"); });
    wired.stages.BringUpAll();
    wired.Start();
    ASSERT_TRUE(Await([&] {
      const auto all = wired.processes();
      return std::any_of(all.begin(), all.end(), [](const ReplicaProcess& process) {
        return absl::StrContains(process.detail, "its weight files hold other weights");
      });
    }));
    EXPECT_TRUE(wired.epochs().empty());
    wired.stages.ChangeInfo(name, [&](auto& info) { info = right; });
    EXPECT_TRUE(Await([&] { return wired.epochs().size() == 1; }));
  }
}

TEST(ConnectedReplica, ComparesArithmeticOnceMoreAfterItOpened) {
  Wired wired;
  wired.stages.ReplaceOnOpen("sampler", [](auto& info) { info.set_arithmetic("other"); });
  wired.stages.BringUpAll();
  wired.Start();
  ASSERT_TRUE(Await([&] { return wired.epochs().size() == 1; }));
  EXPECT_EQ(wired.stages.epochs("sampler").size(), 2u);  // the first was not used
}

}  // namespace
}  // namespace sluice
