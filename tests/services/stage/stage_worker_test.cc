// What hands work to a stage's thread: queues, and the sessions that replace one another.
#include "services/stage/stage_worker.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "services/common/epoch.h"
#include "services/stage/step_joiner.h"
#include "services/work/work_queue.h"
#include "sluice/v1/shard.pb.h"

namespace sluice {
namespace {

// Runs until closed, and keeps what happened to it.
class WorkerSession final : public StageSession {
 public:
  void Run() override {
    running.Notify();
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(
        +[](absl::Status* reason) { return !reason->ok(); }, &reason_));
    ran_ = true;
  }
  void Close(const absl::Status& reason) override {
    absl::MutexLock lock(&mutex_);
    if (reason_.ok()) reason_ = reason;
  }
  absl::Status reason() const {
    absl::MutexLock lock(&mutex_);
    return reason_;
  }
  bool ran() const {
    absl::MutexLock lock(&mutex_);
    return ran_;
  }

  absl::Notification running;

 private:
  mutable absl::Mutex mutex_;
  absl::Status reason_ ABSL_GUARDED_BY(mutex_);
  bool ran_ ABSL_GUARDED_BY(mutex_) = false;
};

TEST(StageWorker, ReplacesASessionByANewerOne) {
  StageWorker worker;
  EXPECT_EQ(worker.epoch(), 0u);
  const auto first = std::make_shared<WorkerSession>();
  const auto second = std::make_shared<WorkerSession>();
  ASSERT_TRUE(worker.Switch("a", 5, first).ok());
  first->running.WaitForNotification();
  EXPECT_EQ(worker.epoch(), 5u);
  ASSERT_TRUE(worker.Switch("a", 7, second).ok());
  EXPECT_EQ(first->reason(), absl::AbortedError("replaced by epoch 7"));
  second->running.WaitForNotification();
  EXPECT_TRUE(first->ran());  // to its end, before the second began
  EXPECT_TRUE(second->reason().ok());
  EXPECT_EQ(worker.epoch(), 7u);
}

TEST(StageWorker, RefusesEpochsThatNothingCouldFollow) {
  StageWorker worker;
  const auto session = std::make_shared<WorkerSession>();
  for (const uint64_t epoch : {uint64_t{0}, kMaxEpoch + 1, ~uint64_t{0}}) {
    const absl::Status status = worker.Switch("a", epoch, session);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << epoch;
    EXPECT_EQ(status.message(), absl::StrCat("epoch is ", epoch, "; accepted: 1 to ", kMaxEpoch));
  }
  EXPECT_EQ(worker.epoch(), 0u);
  EXPECT_TRUE(worker.Switch("a", 1, session).ok());
}

TEST(StageWorker, CountsFromTheBeginningAfterTheLastEpoch) {
  StageWorker worker;
  const auto last = std::make_shared<WorkerSession>();
  const auto next = std::make_shared<WorkerSession>();
  ASSERT_TRUE(worker.Switch("a", kMaxEpoch, last).ok());
  EXPECT_EQ(worker.epoch(), 0u);  // what an orchestrator counts on from
  EXPECT_EQ(worker.Switch("a", kMaxEpoch, next).code(), absl::StatusCode::kAborted);
  EXPECT_TRUE(worker.Switch("a", EpochAfter(worker.epoch()), next).ok());
  EXPECT_EQ(worker.epoch(), 1u);
  EXPECT_FALSE(last->reason().ok());
}

TEST(StageWorker, BelongsToTheOrchestratorWhoseStreamIsOpen) {
  StageWorker worker;
  const auto first = std::make_shared<WorkerSession>();
  const auto second = std::make_shared<WorkerSession>();
  ASSERT_TRUE(worker.Switch("a", 5, first).ok());
  EXPECT_EQ(worker.Switch("b", 6, second).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_TRUE(first->reason().ok());
  EXPECT_EQ(worker.epoch(), 5u);
  first->OrchestratorLeft();
  EXPECT_TRUE(worker.Switch("b", 6, second).ok());
}

TEST(StageWorker, RefusesWhatIsNotNewer) {
  StageWorker worker;
  const auto current = std::make_shared<WorkerSession>();
  ASSERT_TRUE(worker.Switch("a", 5, current).ok());
  for (const uint64_t epoch : {5, 4}) {
    const auto refused = std::make_shared<WorkerSession>();
    EXPECT_EQ(worker.Switch("a", epoch, refused).code(), absl::StatusCode::kAborted);
    EXPECT_FALSE(refused->running.HasBeenNotified());
  }
  EXPECT_TRUE(current->reason().ok());
  EXPECT_EQ(worker.epoch(), 5u);
}

TEST(StageWorker, ClosesEverySessionItWasGiven) {
  std::vector<std::shared_ptr<WorkerSession>> sessions;
  {
    StageWorker worker;
    for (uint64_t epoch = 1; epoch <= 50; ++epoch) {
      sessions.push_back(std::make_shared<WorkerSession>());
      ASSERT_TRUE(worker.Switch("a", epoch, sessions.back()).ok());
    }
  }
  for (size_t i = 0; i < sessions.size(); ++i) {
    EXPECT_EQ(sessions[i]->reason().code(),
              i + 1 < sessions.size() ? absl::StatusCode::kAborted : absl::StatusCode::kUnavailable)
        << "session " << i;
    EXPECT_EQ(sessions[i].use_count(), 1) << "session " << i;
  }
}

constexpr uint64_t kEpoch = 3;
using Joiner = StepJoiner<v1::ShardRunRequest>;

v1::ShardRunRequest PlanOf(uint64_t step) {
  v1::ShardRunRequest request;
  request.mutable_execute()->set_step_id(step);
  return request;
}

v1::PushRequest RowsOf(uint64_t step) {
  v1::PushRequest request;
  request.mutable_step()->set_epoch(kEpoch);
  request.mutable_step()->set_step_id(step);
  request.mutable_step()->mutable_hidden()->add_shape(static_cast<int64_t>(step));
  return request;
}

TEST(StepJoiner, GivesStepsInTheOrderOfPlansHoweverPartsArrive) {
  for (const uint32_t seed : {1u, 2u, 3u}) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    constexpr uint64_t kSteps = 100;
    Joiner joiner(kEpoch);
    std::thread plans([&] {
      for (uint64_t step = 1; step <= kSteps; ++step) joiner.plans().Add(PlanOf(step));
    });
    std::thread rows([&] {
      std::vector<uint64_t> order(kSteps);
      for (uint64_t i = 0; i < kSteps; ++i) order[i] = i + 1;
      std::shuffle(order.begin(), order.end(), std::mt19937(seed));
      for (const uint64_t step : order) joiner.rows().Add(RowsOf(step));
    });
    for (uint64_t step = 1; step <= kSteps; ++step) {
      const auto plan = joiner.NextPlan();
      ASSERT_TRUE(plan.ok()) << plan.status();
      EXPECT_EQ(plan->step_id(), step);
      const auto told = joiner.RowsOf(step);
      ASSERT_TRUE(told.ok()) << told.status();
      EXPECT_EQ(told->hidden().shape(0), static_cast<int64_t>(step));
    }
    plans.join();
    rows.join();
  }
}

TEST(StepJoiner, GivesNothingOnceClosed) {
  const absl::Status reason = absl::AbortedError("replaced");
  Joiner joiner(kEpoch);
  joiner.plans().Add(PlanOf(1));
  std::thread waiting([&] { EXPECT_EQ(joiner.RowsOf(1).status(), reason); });
  joiner.Close(reason);
  waiting.join();
  joiner.plans().Add(PlanOf(1));
  joiner.rows().Add(RowsOf(1));
  EXPECT_EQ(joiner.NextPlan().status(), reason);
  EXPECT_EQ(joiner.RowsOf(1).status(), reason);
}

// A lane is not looked into on its way.
TEST(StepJoiner, RefusesRowsOfAnotherEpochAndRequestsWithoutAPlan) {
  Joiner joiner(kEpoch + 1);
  joiner.rows().Add(RowsOf(1));
  EXPECT_EQ(joiner.RowsOf(1).status().code(), absl::StatusCode::kAborted);
  joiner.plans().Add(v1::ShardRunRequest());
  EXPECT_EQ(joiner.NextPlan().status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(WorkQueue, GivesItemsInOrderAndNothingOnceClosed) {
  WorkQueue<std::unique_ptr<int>> queue;
  std::thread adding([&] {
    for (int i = 0; i < 100; ++i) queue.Add(std::make_unique<int>(i));
  });
  for (int i = 0; i < 100; ++i) {
    const auto item = queue.Next();
    ASSERT_TRUE(item.has_value());
    EXPECT_EQ(**item, i);
  }
  adding.join();
  std::thread waiting([&] { EXPECT_FALSE(queue.Next().has_value()); });
  queue.Close();
  waiting.join();
  queue.Add(std::make_unique<int>(0));
  EXPECT_FALSE(queue.Next().has_value());
}

}  // namespace
}  // namespace sluice
