// Calls to a tokenizer that hangs for a while, or for good.
#include "orchestrator/text/tokenizer_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "services/common/server.h"
#include "services/common/transport.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

// Answers the first call, and none of the `num_hanging` after it.
class Tokenizer final : public v1::TokenizerService::CallbackService {
 public:
  explicit Tokenizer(int num_hanging) : num_hanging_(num_hanging) {}

  int num_calls() const {
    absl::MutexLock lock(&mutex_);
    return num_calls_;
  }

 private:
  grpc::ServerUnaryReactor* Tokenize(grpc::CallbackServerContext* context,
                                     const v1::TokenizeRequest*,
                                     v1::TokenizeResponse* response) override {
    response->set_num_tokens(3);
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    absl::MutexLock lock(&mutex_);
    const bool hangs = ++num_calls_ > 1 && num_calls_ <= 1 + num_hanging_;
    (hangs ? hanging_ : answered_).push_back(reactor);
    if (!hangs) reactor->Finish(grpc::Status::OK);
    return reactor;
  }

 public:
  // A server waits for its calls.
  void EndAll() {
    absl::MutexLock lock(&mutex_);
    for (grpc::ServerUnaryReactor* reactor : hanging_) reactor->Finish(grpc::Status::OK);
  }

 private:
  const int num_hanging_;
  mutable absl::Mutex mutex_;
  int num_calls_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<grpc::ServerUnaryReactor*> hanging_ ABSL_GUARDED_BY(mutex_);
  std::vector<grpc::ServerUnaryReactor*> answered_ ABSL_GUARDED_BY(mutex_);
};

class Served {
 public:
  explicit Served(int num_hanging) : tokenizer(num_hanging) {
    auto started = Server::Start({.address = "inproc:tokenizer", .services = {&tokenizer}});
    EXPECT_TRUE(started.ok()) << started.status();
    server_ = *std::move(started);
    dialer_.RegisterInProcess("tokenizer", server_->grpc_server());
    client_ = std::make_unique<TokenizerClient>(*dialer_.Dial("inproc:tokenizer"),
                                                absl::Milliseconds(20));
    EXPECT_TRUE(Call().ok());  // so that the client knows how long calls take
  }
  ~Served() { tokenizer.EndAll(); }

  absl::StatusOr<v1::TokenizeResponse> Call(SteadyTime deadline = SteadyTime::InfiniteFuture()) {
    absl::Notification done;
    absl::StatusOr<v1::TokenizeResponse> result;
    client_->Tokenize({}, deadline, [&](absl::StatusOr<v1::TokenizeResponse> response) {
      result = std::move(response);
      done.Notify();
    });
    done.WaitForNotification();
    return result;
  }

  Tokenizer tokenizer;

 private:
  Dialer dialer_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<TokenizerClient> client_;
};

TEST(TokenizerClientTest, CallsAgainWhereACallHangs) {
  Served served(/*num_hanging=*/2);
  const auto response = served.Call();
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->num_tokens(), 3);
  EXPECT_EQ(served.tokenizer.num_calls(), 4);
}

TEST(TokenizerClientTest, GivesUpATokenizerThatHangsForGood) {
  Served served(/*num_hanging=*/100);
  const absl::Status status = served.Call().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("hangs"));
}

TEST(TokenizerClientTest, TheCallersDeadlineComesFirst) {
  Served served(/*num_hanging=*/100);
  const absl::Status status = served.Call(SteadyTime::Now() + absl::Milliseconds(10)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
}

}  // namespace
}  // namespace sluice
