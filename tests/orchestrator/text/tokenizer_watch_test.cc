#include "orchestrator/text/tokenizer_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "services/rpc/server.h"
#include "services/rpc/transport.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

class WatchedTokenizer final : public v1::TokenizerService::CallbackService {
  grpc::ServerUnaryReactor* GetInfo(grpc::CallbackServerContext* context,
                                    const v1::GetTokenizerInfoRequest*,
                                    v1::GetTokenizerInfoResponse* response) override {
    response->set_has_tokenizer(true);
    response->set_vocabulary_size(7);
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
};

class TokenizerWatchTest : public ::testing::Test {
 protected:
  void Serve() {
    absl::StatusOr<std::unique_ptr<Server>> server =
        Server::Start({.address = address_, .services = {&tokenizer_}});
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  void Watch() {
    watch_.emplace(*Dialer().Dial(address_, Role::kTokenizer),
                   TokenizerWatch::Options{.address = address_,
                                           .on_changed =
                                               [this](bool answers) {
                                                 absl::MutexLock lock(&mutex_);
                                                 answers_ = answers;
                                               },
                                           .interval = absl::Milliseconds(5),
                                           .patience = absl::Milliseconds(300)});
  }

  bool AwaitAnswers(bool answers) {
    absl::MutexLock lock(&mutex_);
    const auto reached = [this, answers]()
                             ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return answers_ == answers; };
    return mutex_.AwaitWithTimeout(absl::Condition(&reached), absl::Minutes(1));
  }

  absl::StatusOr<TokenizerWatch::Info> Get(SteadyTime deadline = SteadyTime::InfiniteFuture()) {
    absl::Notification done;
    absl::StatusOr<TokenizerWatch::Info> result;
    watch_->Get(deadline, [&](absl::StatusOr<TokenizerWatch::Info> info) {
      result = std::move(info);
      done.Notify();
    });
    done.WaitForNotification();
    return result;
  }

  const std::string address_ = "unix:" + ::testing::TempDir() + "/tokenizer_watch_" +
                               ::testing::UnitTest::GetInstance()->current_test_info()->name();
  WatchedTokenizer tokenizer_;
  absl::Mutex mutex_;
  bool answers_ ABSL_GUARDED_BY(mutex_) = false;
  std::unique_ptr<Server> server_;
  std::optional<TokenizerWatch> watch_;
};

TEST_F(TokenizerWatchTest, SaysWhyTheTokenizerDoesNotAnswerAndThatItDoes) {
  Watch();
  EXPECT_EQ(watch_->status().code(), absl::StatusCode::kUnavailable);
  const absl::Status missing = Get().status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(missing.message()), HasSubstr(address_));
  EXPECT_THAT(std::string(missing.message()), HasSubstr("No such file or directory"));
  Serve();
  ASSERT_TRUE(AwaitAnswers(true));
  EXPECT_TRUE(watch_->status().ok());
  EXPECT_EQ(Get()->vocabulary_size(), 7);
}

TEST_F(TokenizerWatchTest, NoticesALossAndKeepsWhatItKnows) {
  Serve();
  Watch();
  ASSERT_TRUE(AwaitAnswers(true));
  server_.reset();
  ASSERT_TRUE(AwaitAnswers(false));
  EXPECT_FALSE(watch_->status().ok());
  EXPECT_EQ(Get()->vocabulary_size(), 7);
  Serve();
  EXPECT_TRUE(AwaitAnswers(true));
}

TEST_F(TokenizerWatchTest, TellsWhoWaitsThatItStops) {
  Watch();
  absl::Notification told;
  watch_->Get(SteadyTime::InfiniteFuture(), [&](const absl::StatusOr<TokenizerWatch::Info>& info) {
    EXPECT_EQ(info.status().code(), absl::StatusCode::kUnavailable);
    told.Notify();
  });
  watch_->Stop();
  EXPECT_TRUE(told.HasBeenNotified());
  EXPECT_THAT(std::string(Get().status().message()), HasSubstr("shutting down"));
}

}  // namespace
}  // namespace sluice
