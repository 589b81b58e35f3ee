// Calls to a tokenizer that hangs for a while, or for good.
#include "orchestrator/text/tokenizer_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "services/common/status.h"
#include "services/messages/expected_tokenizer.h"
#include "services/rpc/server.h"
#include "services/rpc/transport.h"
#include "services/work/work_metadata.h"

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
    budget_ = WorkBudgetOf(*context);
    SetWork(work_, *context);
    if (!error_.ok() && num_errors_ > 0) {
      --num_errors_;
      reactor->Finish(ToGrpc(error_));
      return reactor;
    }
    if (const absl::Status fits = CheckExpectedTokenizer(*context, digest_); !fits.ok()) {
      reactor->Finish(ToGrpc(fits));
      return reactor;
    }
    const bool hangs = ++num_calls_ > 1 && num_calls_ <= 1 + num_hanging_ && !ended_;
    (hangs ? hanging_ : answered_).push_back(reactor);
    if (!hangs) reactor->Finish(grpc::Status::OK);
    return reactor;
  }

 public:
  void SetDigest(const std::string& digest) {
    absl::MutexLock lock(&mutex_);
    digest_ = digest;
  }

  // What calls take from now on, and how the next `num_errors` end.
  void SetWorkOfCalls(absl::Duration work, const absl::Status& error = absl::OkStatus(),
                      int num_errors = 1000) {
    absl::MutexLock lock(&mutex_);
    work_ = work;
    error_ = error;
    num_errors_ = num_errors;
  }
  // That the last call came with.
  absl::Duration budget() const {
    absl::MutexLock lock(&mutex_);
    return budget_;
  }

  // A server waits for its calls.
  void EndAll() {
    absl::MutexLock lock(&mutex_);
    ended_ = true;
    for (grpc::ServerUnaryReactor* reactor : hanging_) reactor->Finish(grpc::Status::OK);
  }

 private:
  const int num_hanging_;
  mutable absl::Mutex mutex_;
  std::string digest_ ABSL_GUARDED_BY(mutex_) = "right";
  int num_calls_ ABSL_GUARDED_BY(mutex_) = 0;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Duration work_ ABSL_GUARDED_BY(mutex_);
  absl::Duration budget_ ABSL_GUARDED_BY(mutex_);
  absl::Status error_ ABSL_GUARDED_BY(mutex_);
  int num_errors_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<grpc::ServerUnaryReactor*> hanging_ ABSL_GUARDED_BY(mutex_);
  std::vector<grpc::ServerUnaryReactor*> answered_ ABSL_GUARDED_BY(mutex_);
};

class Served {
 public:
  explicit Served(int num_hanging, TokenizerClient::Options options = {}) : tokenizer(num_hanging) {
    auto started = Server::Start({.address = "inproc:tokenizer", .services = {&tokenizer}});
    EXPECT_TRUE(started.ok()) << started.status();
    server_ = *std::move(started);
    dialer_.RegisterInProcess("tokenizer", server_->grpc_server());
    options.hang_timeout = absl::Milliseconds(20);
    options.digest = "right";
    client_ = std::make_unique<TokenizerClient>(*dialer_.Dial("inproc:tokenizer", Role::kTokenizer),
                                                options);
    EXPECT_TRUE(Call().ok());  // so that the client knows how long calls take
  }
  ~Served() { tokenizer.EndAll(); }

  absl::StatusOr<v1::TokenizeResponse> Call(SteadyTime deadline = SteadyTime::InfiniteFuture(),
                                            std::shared_ptr<WorkMeter> meter = nullptr) {
    absl::Notification done;
    absl::StatusOr<v1::TokenizeResponse> result;
    client_->Tokenize({}, {.deadline = deadline, .work = {.owner = {}, .meter = meter}},
                      [&](absl::StatusOr<v1::TokenizeResponse> response) {
                        result = std::move(response);
                        done.Notify();
                      });
    done.WaitForNotification();
    return result;
  }

  // Asks for a tenant, and leaves it under way where the tokenizer hangs; what it was told
  // meanwhile.
  std::shared_ptr<absl::Status> Ask(const std::string& tenant, size_t num_bytes) {
    v1::TokenizeRequest request;
    request.set_text(std::string(num_bytes, 'a'));
    auto told = std::make_shared<absl::Status>(absl::UnknownError("nothing yet"));
    client_->Tokenize(std::move(request), {.work = {.owner = {tenant}}},
                      [told](const absl::StatusOr<v1::TokenizeResponse>& response) {
                        *told = response.status();
                      });
    return told;
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

TEST(TokenizerClientTest, WaitsForAsLongAsTheTokenizerAnswersOtherCalls) {
  // More often than a tokenizer that hangs is asked.
  Served served(/*num_hanging=*/4, {.answers = [] { return true; }});
  const auto response = served.Call();
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(served.tokenizer.num_calls(), 6);
}

TEST(TokenizerClientTest, BoundsTheTextsUnderWayOfATenant) {
  Served served(/*num_hanging=*/100, {.answers = [] { return true; }, .max_bytes = 1000});
  const auto first = served.Ask("greedy", 400), second = served.Ask("greedy", 400);
  EXPECT_EQ(first->code(), absl::StatusCode::kUnknown);
  EXPECT_EQ(second->code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(second->message()), HasSubstr("the tenant has 40"));
  EXPECT_THAT(std::string(second->message()), HasSubstr("of 1000"));
  EXPECT_EQ(served.Ask("good", 400)->code(), absl::StatusCode::kUnknown) << "another finds room";
}

TEST(TokenizerClientTest, UsesNoTokenizerOfAnotherModel) {
  Served served(/*num_hanging=*/0);
  served.tokenizer.SetDigest("wrong");
  const absl::Status status = served.Call().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("SHA-256 is wrong, expected right"));
  served.tokenizer.SetDigest("right");
  EXPECT_TRUE(served.Call().ok());
}

TEST(TokenizerClientTest, TheCallersDeadlineComesFirst) {
  Served served(/*num_hanging=*/100);
  const absl::Status status = served.Call(SteadyTime::Now() + absl::Milliseconds(10)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
}

TEST(TokenizerClientTest, EndsARequestThatHasTakenAllTheWorkThatItMay) {
  Served served(/*num_hanging=*/0);
  absl::Duration billed;
  const auto meter = std::make_shared<WorkMeter>(
      absl::Seconds(10), [&billed](absl::Duration work) { billed += work; });
  const auto call = [&] { return served.Call(SteadyTime::InfiniteFuture(), meter).status(); };
  served.tokenizer.SetWorkOfCalls(absl::Seconds(4));
  EXPECT_TRUE(call().ok());
  EXPECT_EQ(served.tokenizer.budget(), absl::Seconds(10));
  served.tokenizer.SetWorkOfCalls(absl::Seconds(4), absl::InvalidArgumentError("not UTF-8"));
  EXPECT_EQ(call().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(served.tokenizer.budget(), absl::Seconds(6));
  EXPECT_EQ(billed, absl::Seconds(8)) << "a call that fails has been work, too";
  served.tokenizer.SetWorkOfCalls(absl::Seconds(3));
  for (int i = 0; i < 2; ++i) {
    const absl::Status status = call();
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(std::string(status.message()), HasSubstr("max_request_work: "));
    EXPECT_THAT(std::string(status.message()), HasSubstr("11s of processor time"));
  }
  EXPECT_EQ(served.tokenizer.budget(), absl::Seconds(2)) << "the last did not come here";
  EXPECT_TRUE(served.Call().ok()) << "another request";
}

// A tokenizer that is stopped cancels what it has begun; the caller has not left.
TEST(TokenizerClient, CallsOfATokenizerThatIsStoppedAreMadeAgain) {
  Served served(0);
  served.tokenizer.SetWorkOfCalls(absl::ZeroDuration(), absl::CancelledError(""), 1);
  EXPECT_TRUE(served.Call().ok());
  served.tokenizer.SetWorkOfCalls(absl::ZeroDuration(), absl::CancelledError(""));
  const absl::Status stopped = served.Call().status();
  EXPECT_TRUE(absl::IsUnavailable(stopped)) << stopped;
}

}  // namespace
}  // namespace sluice
