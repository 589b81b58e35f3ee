// What a gateway asks an orchestrator about its callers, and how often.
#include <gtest/gtest.h>

#include <string>

#include "services/gateway/backend/backend.h"
#include "tests/testing/fake_orchestrator.h"
#include "tests/testing/test_loop.h"

namespace sluice::gateway {
namespace {

using testing::FakeOrchestrator;
using testing::TestLoop;

class CallersTest : public ::testing::Test {
 protected:
  ~CallersTest() override { backend_.Shutdown(); }

  Caller Of(const std::string& authorization) {
    return {.loop = &loop_, .authorization = authorization, .trace = std::nullopt};
  }

  Backend::Callback<v1::GetModelResponse> Count() {
    return [this](const absl::StatusOr<v1::GetModelResponse>& model) {
      ++num_answers_;
      last_ = model.status();
    };
  }

  void AwaitAnswers(int count) {
    loop_.RunUntil([&] { return num_answers_ >= count; });
  }

  FakeOrchestrator orchestrator_;
  TestLoop loop_;
  Backend backend_{{orchestrator_.Channel()}, {}};
  int num_answers_ = 0;
  absl::Status last_;
};

TEST_F(CallersTest, AnOrchestratorIsAskedOnceForAllWhoWait) {
  for (int i = 0; i < 5; ++i) backend_.GetModel(Of("Bearer a"), Count());
  AwaitAnswers(5);
  EXPECT_TRUE(last_.ok()) << last_;
  EXPECT_EQ(orchestrator_.num_models(), 1);
  backend_.GetModel(Of("Bearer a"), Count());
  EXPECT_EQ(num_answers_, 6);  // known by now
  EXPECT_EQ(orchestrator_.num_models(), 1);
}

TEST_F(CallersTest, ARefusalIsRememberedForAMoment) {
  backend_.GetModel(Of("Bearer refused"), Count());
  AwaitAnswers(1);
  EXPECT_EQ(last_.code(), absl::StatusCode::kUnauthenticated);
  for (int i = 0; i < 5; ++i) backend_.GetModel(Of("Bearer refused"), Count());
  EXPECT_EQ(num_answers_, 6);
  EXPECT_EQ(last_.code(), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(orchestrator_.num_refused(), 1);
  backend_.GetModel(Of("Bearer a"), Count());
  AwaitAnswers(7);
  EXPECT_TRUE(last_.ok()) << last_;
}

TEST_F(CallersTest, AModelThatIsAskedForNowIsNoOldOne) {
  for (int i = 1; i <= 3; ++i) {
    backend_.AskForModel(Of("Bearer a"), Count());
    AwaitAnswers(i);
    EXPECT_EQ(orchestrator_.num_models(), i);
  }
}

TEST_F(CallersTest, CallersWithoutATokenCountAsOne) {
  for (int i = 0; i < 3; ++i) backend_.AskForModel(Of(""), Count());
  AwaitAnswers(3);
  EXPECT_EQ(orchestrator_.num_models(), 1);
}

}  // namespace
}  // namespace sluice::gateway
