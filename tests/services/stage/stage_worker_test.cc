// What hands work to a stage's thread: queues, and the sessions that replace one another.
#include "services/stage/stage_worker.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "services/common/epoch.h"
#include "services/work/work_queue.h"

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
  void AddPlan(v1::StageRunRequest) override {}
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

// StageTenureTest has the rest.
TEST(StageWorker, KnowsWhetherItsTenureGoesOn) {
  StageWorker worker, another;
  EXPECT_NE(worker.tenure(), another.tenure());
  const auto session = std::make_shared<WorkerSession>();
  ASSERT_TRUE(worker.Switch("a", "nonce", 1, session).ok());
  const uint64_t tenure = worker.tenure();
  ASSERT_TRUE(worker.Switch("a", "nonce", 2, session).ok());
  EXPECT_EQ(worker.tenure(), tenure);
  ASSERT_FALSE(worker.Switch("a", "another", 2, session).ok());  // not newer
  EXPECT_EQ(worker.tenure(), tenure);
  ASSERT_TRUE(worker.Switch("a", "another", 3, session).ok());
  EXPECT_NE(worker.tenure(), tenure);
}

TEST(StageWorker, ReplacesASessionByANewerOne) {
  StageWorker worker;
  EXPECT_EQ(worker.epoch(), 0u);
  const auto first = std::make_shared<WorkerSession>();
  const auto second = std::make_shared<WorkerSession>();
  ASSERT_TRUE(worker.Switch("a", "", 5, first).ok());
  first->running.WaitForNotification();
  EXPECT_EQ(worker.epoch(), 5u);
  ASSERT_TRUE(worker.Switch("a", "", 7, second).ok());
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
    const absl::Status status = worker.Switch("a", "", epoch, session);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << epoch;
    EXPECT_EQ(status.message(), absl::StrCat("epoch is ", epoch, "; accepted: 1 to ", kMaxEpoch));
  }
  EXPECT_EQ(worker.epoch(), 0u);
  EXPECT_TRUE(worker.Switch("a", "", 1, session).ok());
}

TEST(StageWorker, CountsFromTheBeginningAfterTheLastEpoch) {
  StageWorker worker;
  const auto last = std::make_shared<WorkerSession>();
  const auto next = std::make_shared<WorkerSession>();
  ASSERT_TRUE(worker.Switch("a", "", kMaxEpoch, last).ok());
  EXPECT_EQ(worker.epoch(), 0u);  // what an orchestrator counts on from
  EXPECT_EQ(worker.Switch("a", "", kMaxEpoch, next).code(), absl::StatusCode::kAborted);
  EXPECT_TRUE(worker.Switch("a", "", EpochAfter(worker.epoch()), next).ok());
  EXPECT_EQ(worker.epoch(), 1u);
  EXPECT_FALSE(last->reason().ok());
}

TEST(StageWorker, BelongsToTheOrchestratorWhoseStreamIsOpen) {
  StageWorker worker;
  const auto first = std::make_shared<WorkerSession>();
  const auto second = std::make_shared<WorkerSession>();
  ASSERT_TRUE(worker.Switch("a", "", 5, first).ok());
  EXPECT_EQ(worker.Switch("b", "", 6, second).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_TRUE(first->reason().ok());
  EXPECT_EQ(worker.epoch(), 5u);
  first->OrchestratorLeft();
  EXPECT_TRUE(worker.Switch("b", "", 6, second).ok());
}

TEST(StageWorker, RefusesWhatIsNotNewer) {
  StageWorker worker;
  const auto current = std::make_shared<WorkerSession>();
  ASSERT_TRUE(worker.Switch("a", "", 5, current).ok());
  for (const uint64_t epoch : {5, 4}) {
    const auto refused = std::make_shared<WorkerSession>();
    EXPECT_EQ(worker.Switch("a", "", epoch, refused).code(), absl::StatusCode::kAborted);
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
      ASSERT_TRUE(worker.Switch("a", "", epoch, sessions.back()).ok());
    }
  }
  for (size_t i = 0; i < sessions.size(); ++i) {
    EXPECT_EQ(sessions[i]->reason().code(),
              i + 1 < sessions.size() ? absl::StatusCode::kAborted : absl::StatusCode::kUnavailable)
        << "session " << i;
    EXPECT_EQ(sessions[i].use_count(), 1) << "session " << i;
  }
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
