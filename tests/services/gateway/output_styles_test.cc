// What is kept of how a template writes calls of tools, and for how long an error is believed.
#include "services/gateway/api/output_styles.h"

#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "services/common/status.h"
#include "services/rpc/server.h"

namespace sluice::gateway {
namespace {

// Runs its tasks on the test's thread.
class StylesLoop final : public http::Loop {
 public:
  void Post(std::function<void()> task) override {
    absl::MutexLock lock(&mutex_);
    tasks_.push_back(std::move(task));
  }
  void After(absl::Duration, std::function<void()> task) override { Post(std::move(task)); }

  void RunNext() {
    std::function<void()> task;
    {
      absl::MutexLock lock(&mutex_);
      const auto some = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !tasks_.empty(); };
      ASSERT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(&some), absl::Minutes(1)));
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
  }

 private:
  absl::Mutex mutex_;
  std::deque<std::function<void()>> tasks_ ABSL_GUARDED_BY(mutex_);
};

// A template that writes calls as Hermes' models do, or answers with an error.
class Templates final : public v1::GenerationService::Service {
 public:
  void SetError(absl::Status error) {
    absl::MutexLock lock(&mutex_);
    error_ = std::move(error);
  }
  int num_calls() const { return num_calls_; }

  grpc::Status ApplyChatTemplate(grpc::ServerContext*, const v1::ApplyChatTemplateRequest*,
                                 v1::ApplyChatTemplateResponse* response) override {
    ++num_calls_;
    absl::MutexLock lock(&mutex_);
    if (!error_.ok()) return ToGrpc(error_);
    response->set_text("<tool_call>\n{\"name\": \"get_weather\"}\n</tool_call>");
    return grpc::Status::OK;
  }

 private:
  std::atomic<int> num_calls_ = 0;
  absl::Mutex mutex_;
  absl::Status error_ ABSL_GUARDED_BY(mutex_);
};

class OutputStylesTest : public ::testing::Test {
 protected:
  OutputStylesTest()
      : server_(*Server::Start({.address = "inproc:templates", .services = {&templates_}})),
        backend_({server_->grpc_server()->InProcessChannel(grpc::ChannelArguments())}, {}),
        styles_(&backend_, std::nullopt) {}
  ~OutputStylesTest() override { backend_.Shutdown(); }

  absl::StatusOr<OutputStyle> Get(const std::string& variables = "") {
    std::optional<absl::StatusOr<OutputStyle>> result;
    styles_.Get({.loop = &loop_}, "model", variables,
                [&](absl::StatusOr<OutputStyle> style) { result = std::move(style); });
    while (!result.has_value()) loop_.RunNext();
    return *result;
  }

  Templates templates_;
  std::unique_ptr<Server> server_;
  StylesLoop loop_;
  Backend backend_;
  OutputStyles styles_;
};

TEST_F(OutputStylesTest, AsksTheTemplateOnce) {
  for (int i = 0; i < 2; ++i) {
    const auto style = Get();
    ASSERT_TRUE(style.ok()) << style.status();
    EXPECT_NE(style->tool_format, ToolFormat::kNone);
    EXPECT_EQ(templates_.num_calls(), 2);  // calls, then thoughts
  }
}

TEST_F(OutputStylesTest, ATemplateThatRefusesHasNoCalls) {
  for (const absl::Status& refusal :
       {absl::FailedPreconditionError("no chat template"), absl::InvalidArgumentError("tools")}) {
    templates_.SetError(refusal);
    const auto style = Get(std::string(refusal.message()));
    ASSERT_TRUE(style.ok()) << style.status();
    EXPECT_EQ(style->tool_format, ToolFormat::kNone);
  }
}

TEST_F(OutputStylesTest, AnErrorThatIsNotTheTemplatesIsForgotten) {
  for (const absl::Status& error :
       {absl::ResourceExhaustedError("busy"), absl::UnauthenticatedError("who?"),
        absl::InternalError("lost"), absl::AbortedError("another")}) {
    const std::string variables(error.message());
    templates_.SetError(error);
    EXPECT_EQ(Get(variables).status().code(), error.code());
    templates_.SetError(absl::OkStatus());
    const auto style = Get(variables);
    ASSERT_TRUE(style.ok()) << style.status();
    EXPECT_NE(style->tool_format, ToolFormat::kNone) << error;
  }
}

}  // namespace
}  // namespace sluice::gateway
