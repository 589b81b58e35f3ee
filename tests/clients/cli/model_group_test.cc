// Groups of models whose processes do nothing; whether they serve, a server of the test's says.
#include "clients/cli/model_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "services/rpc/server.h"
#include "tests/services/model/model_folder.h"

namespace sluice::testing {
namespace {

using ::testing::HasSubstr;

class WaitingUser : public ModelUser {
 public:
  void Serve() override { Answer(absl::OkStatus()); }
  void Refuse(const absl::Status& why) override { Answer(why); }

  absl::Status AwaitAnswer() {
    absl::MutexLock lock(&mutex_);
    const auto has_answer = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return answer_.has_value();
    };
    EXPECT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(&has_answer), absl::Seconds(60)));
    return answer_.value_or(absl::DeadlineExceededError("no answer"));
  }
  bool has_answer() {
    absl::MutexLock lock(&mutex_);
    return answer_.has_value();
  }

 private:
  void Answer(absl::Status answer) {
    absl::MutexLock lock(&mutex_);
    EXPECT_FALSE(answer_.has_value());
    answer_ = std::move(answer);
  }

  absl::Mutex mutex_;
  std::optional<absl::Status> answer_ ABSL_GUARDED_BY(mutex_);
};

class ModelGroupTest : public ::testing::Test {
 protected:
  ModelGroupTest() {
    auto server = Server::Start({.address = "unix:" + folder_.PathOf("health")});
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    server_->SetServing(true);
  }

  // One that sleeps when nobody uses it for so long.
  GroupedModel Model(const std::string& name, uint64_t memory_bytes,
                     absl::Duration sleep_after = absl::Hours(1),
                     const std::string& script = "exec sleep 600") {
    GroupedModel model = {.name = name,
                          .memory_bytes = memory_bytes,
                          .sleep_after = sleep_after,
                          .asleep = sleep_after != absl::InfiniteDuration()};
    model.processes = {.name = name,
                       .processes = {{.name = "worker", .argv = {"/bin/sh", "-c", script}}},
                       .ready_when = {"unix:" + folder_.PathOf("health")}};
    return model;
  }

  void Start(std::vector<GroupedModel> models, uint64_t memory_bytes,
             absl::Duration room_patience = absl::Hours(1)) {
    group_.emplace(
        std::move(models), memory_bytes,
        [this] {
          absl::MutexLock lock(&mutex_);
          ++num_changes_;
        },
        room_patience);
  }

  std::shared_ptr<WaitingUser> Enter(const std::string& name) {
    auto user = std::make_shared<WaitingUser>();
    group_->Enter(name, user);
    return user;
  }

  ProcessGroup::State StateOf(const std::string& name) {
    for (const ModelGroup::Entry& entry : group_->List()) {
      if (entry.name == name) return entry.state;
    }
    ADD_FAILURE() << name;
    return ProcessGroup::State::kEnded;
  }

  void AwaitState(const std::string& name, ProcessGroup::State state) {
    absl::MutexLock lock(&mutex_);
    const auto is_there = [&] { return StateOf(name) == state; };
    EXPECT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(&is_there), absl::Seconds(60))) << name;
  }

  const TempFolder folder_;
  std::unique_ptr<Server> server_;
  absl::Mutex mutex_;
  int num_changes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::optional<ModelGroup> group_;  // last: it calls what is above
};

TEST_F(ModelGroupTest, WakesAModelForItsUsersAndLetsItSleepWithoutThem) {
  Start({Model("a", 10, absl::Seconds(1))}, 10);
  EXPECT_EQ(StateOf("a"), ProcessGroup::State::kEnded);
  const auto first = Enter("a");
  const auto second = Enter("a");
  EXPECT_TRUE(first->AwaitAnswer().ok());
  EXPECT_TRUE(second->AwaitAnswer().ok());
  group_->Leave(first.get());
  EXPECT_TRUE(Enter("a")->AwaitAnswer().ok());  // awake: at once; never leaves
  group_->Leave(second.get());
  EXPECT_EQ(StateOf("a"), ProcessGroup::State::kRunning);
}

TEST_F(ModelGroupTest, SleepsOnceNobodyHasUsedItForLongEnough) {
  Start({Model("a", 10, absl::Seconds(1))}, 10);
  const auto user = Enter("a");
  EXPECT_TRUE(user->AwaitAnswer().ok());
  group_->Leave(user.get());
  AwaitState("a", ProcessGroup::State::kEnded);
  EXPECT_TRUE(Enter("a")->AwaitAnswer().ok());
}

TEST_F(ModelGroupTest, MakesRoomByModelsThatNobodyUsesTheLongestUnusedFirst) {
  Start({Model("a", 4), Model("b", 4), Model("c", 4)}, 8);
  const auto a = Enter("a");
  const auto b = Enter("b");
  EXPECT_TRUE(a->AwaitAnswer().ok());
  EXPECT_TRUE(b->AwaitAnswer().ok());
  group_->Leave(b.get());
  group_->Leave(a.get());
  EXPECT_TRUE(Enter("c")->AwaitAnswer().ok());
  EXPECT_EQ(StateOf("b"), ProcessGroup::State::kEnded);
  EXPECT_EQ(StateOf("a"), ProcessGroup::State::kRunning);
}

TEST_F(ModelGroupTest, WaitsForRoomThatOthersUse) {
  Start({Model("a", 4), Model("b", 4)}, 4);
  const auto a = Enter("a");
  EXPECT_TRUE(a->AwaitAnswer().ok());
  const auto b = Enter("b");
  EXPECT_FALSE(b->has_answer());
  group_->Leave(a.get());
  EXPECT_TRUE(b->AwaitAnswer().ok());
  EXPECT_EQ(StateOf("a"), ProcessGroup::State::kEnded);
}

TEST_F(ModelGroupTest, RefusesWhereWhatIsUsedLeavesNoRoomForTooLong) {
  Start({Model("always", uint64_t{3} << 20, absl::InfiniteDuration()),
         Model("a", uint64_t{4} << 20), Model("b", uint64_t{4} << 20)},
        uint64_t{8} << 20, /*room_patience=*/absl::Milliseconds(1));
  const auto a = Enter("a");
  EXPECT_TRUE(a->AwaitAnswer().ok());
  const absl::Status refused = Enter("b")->AwaitAnswer();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(refused.message(), "b takes 4 MiB, and models in use take 7 MiB of 8 MiB");
  group_->Leave(a.get());
  EXPECT_TRUE(Enter("b")->AwaitAnswer().ok());
  EXPECT_EQ(StateOf("always"), ProcessGroup::State::kRunning);
}

TEST_F(ModelGroupTest, SaysWhyAModelCouldNotBeStartedAndTriesAgain) {
  const std::string flag = folder_.PathOf("works");
  server_->SetServing(false);
  Start({Model("a", 1, absl::Hours(1),
               "if [ -e " + flag + " ]; then exec sleep 600; else exit 3; fi")},
        1);
  const absl::Status failed = Enter("a")->AwaitAnswer();
  EXPECT_EQ(failed.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(failed.message()), HasSubstr("a could not be started: worker ended"));
  folder_.Write("works", "");
  server_->SetServing(true);
  EXPECT_TRUE(Enter("a")->AwaitAnswer().ok());
}

TEST_F(ModelGroupTest, AUserWhoLeavesBeforeItIsAwakeIsNotAnswered) {
  server_->SetServing(false);
  Start({Model("a", 1)}, 1);
  const auto gone = Enter("a");
  group_->Leave(gone.get());
  const auto stays = Enter("a");
  server_->SetServing(true);
  EXPECT_TRUE(stays->AwaitAnswer().ok());
  EXPECT_FALSE(gone->has_answer());
}

TEST_F(ModelGroupTest, KnowsItsModelsAlone) {
  Start({Model("a", 1)}, 1);
  EXPECT_EQ(Enter("b")->AwaitAnswer().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace sluice::testing
