// How a constraint comes to the sampler: vocabulary first, once, and again to a sampler that is
// new.
#include "orchestrator/constraints/constraint_preparer.h"

#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Five tokens in pages of two; the last is beyond the model's vocabulary.
class FakeTokenizer final : public v1::TokenizerService::Service {
 public:
  grpc::Status GetVocabulary(grpc::ServerContext*, const v1::GetVocabularyRequest* request,
                             v1::GetVocabularyResponse* response) override {
    ++num_pages;
    const int32_t first = request->first_token_id();
    for (int32_t id = first; id < std::min(first + 2, 5); ++id) {
      if (id == 1) continue;  // a gap
      v1::VocabularyEntry& entry = *response->add_entries();
      entry.set_token_id(id);
      entry.set_text(std::string(1, static_cast<char>('a' + id)));
      entry.set_special(id == 3);
    }
    response->set_next_token_id(first + 2 < 5 ? first + 2 : 0);
    return grpc::Status::OK;
  }

  std::atomic<int> num_pages = 0;
};

// Asks for the vocabulary once; answers with the next of its statuses.
class FakeSampler final : public v1::ConstraintService::Service {
 public:
  grpc::Status PrepareConstraint(grpc::ServerContext* context,
                                 const v1::PrepareConstraintRequest* request,
                                 v1::PrepareConstraintResponse* response) override {
    ++num_asked;
    max_work_us = request->max_work_us();
    context->AddTrailingMetadata("sluice-work-us", std::to_string(work_us));
    if (const auto left = std::exchange(on_asked, nullptr)) {
      left();
      while (!context->IsCancelled()) std::this_thread::yield();
      return grpc::Status::CANCELLED;
    }
    if (request->has_vocabulary()) vocabulary = request->vocabulary();
    response->set_needs_vocabulary(vocabulary.token_bytes().empty());
    if (response->needs_vocabulary() || statuses.empty()) return grpc::Status::OK;
    const grpc::Status status = statuses.back();
    statuses.pop_back();
    return status;
  }

  std::vector<grpc::Status> statuses;  // the next one last
  std::function<void()> on_asked;      // then it works until the call is cancelled
  v1::ConstraintVocabulary vocabulary;
  int num_asked = 0;
  uint64_t max_work_us = 0;  // that was asked for last
  int work_us = 0;           // that each answer has taken
};

// gRPC 1.51 ends its thread for callbacks with the last channel that has used it, and now and then
// trips over it. One that is never destroyed keeps it.
void KeepCallbackThread() {
  static auto* const stub =
      v1::ConstraintService::NewStub(
          grpc::CreateChannel("unix:/nobody", grpc::InsecureChannelCredentials()))
          .release();
  grpc::ClientContext context;
  const v1::PrepareConstraintRequest request;
  v1::PrepareConstraintResponse response;
  absl::Notification done;
  stub->async()->PrepareConstraint(&context, &request, &response,
                                   [&done](const grpc::Status&) { done.Notify(); });
  done.WaitForNotification();
}

struct ConstraintPreparerTest : ::testing::Test {
  static void SetUpTestSuite() { KeepCallbackThread(); }
  ~ConstraintPreparerTest() override { preparer->Stop(); }

  std::shared_ptr<ConstraintPreparer> Make(std::vector<int32_t> end_token_ids) {
    return ConstraintPreparer::Make(
        {.vocabulary_size = 4, .end_token_ids = std::move(end_token_ids)}, &tokenizer,
        server->InProcessChannel({}));
  }

  absl::StatusOr<std::shared_ptr<const ConstraintSpec>> Prepare() {
    v1::Constraint constraint;
    constraint.set_regex("a");
    absl::StatusOr<std::shared_ptr<const ConstraintSpec>> result;
    absl::Notification done;
    preparer->Prepare(constraint,
                      {.deadline = SteadyTime::Now() + absl::Seconds(30),
                       .work = {.owner = {"someone", 2}, .meter = meter},
                       .cancellation = caller},
                      [&](auto prepared) {
                        result = std::move(prepared);
                        done.Notify();
                      });
    done.WaitForNotification();
    return result;
  }

  std::unique_ptr<grpc::Server> Serve() {
    grpc::ServerBuilder builder;
    builder.RegisterService(&fake_tokenizer);
    builder.RegisterService(&fake_sampler);
    return builder.BuildAndStart();
  }

  FakeTokenizer fake_tokenizer;
  FakeSampler fake_sampler;
  std::unique_ptr<grpc::Server> server = Serve();
  TokenizerClient tokenizer{server->InProcessChannel({})};
  std::shared_ptr<ConstraintPreparer> preparer = Make({3});
  std::shared_ptr<Cancellation> caller = std::make_shared<Cancellation>();
  std::shared_ptr<WorkMeter> meter;
};

TEST_F(ConstraintPreparerTest, TellsTheSamplerOnceWhatTokensStandFor) {
  const auto kept = Prepare();
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_THAT(fake_sampler.vocabulary.token_bytes(), ElementsAre("a", "", "c", ""));
  EXPECT_THAT(fake_sampler.vocabulary.end_token_ids(), ElementsAre(3));
  EXPECT_EQ(fake_sampler.num_asked, 2);
  v1::Constraint constraint;
  ASSERT_TRUE(constraint.ParseFromString((*kept)->constraint));
  EXPECT_EQ(constraint.regex(), "a");
  EXPECT_EQ(*(*kept)->vocabulary, fake_sampler.vocabulary.SerializeAsString());

  EXPECT_EQ((*Prepare())->vocabulary, (*kept)->vocabulary);
  EXPECT_EQ(fake_sampler.num_asked, 3);
  EXPECT_EQ(fake_tokenizer.num_pages, 3);

  fake_sampler.vocabulary.Clear();  // as a new process
  EXPECT_TRUE(Prepare().ok());
  EXPECT_EQ(fake_sampler.vocabulary.token_bytes_size(), 4);
  EXPECT_EQ(fake_tokenizer.num_pages, 3);
}

TEST_F(ConstraintPreparerTest, PassesOnWhyItCannotBeKept) {
  fake_sampler.statuses = {grpc::Status(grpc::StatusCode::UNIMPLEMENTED, "regex: no \\b")};
  const absl::Status refused = Prepare().status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(refused.message(), "constraint: regex: no \\b");
}

TEST_F(ConstraintPreparerTest, AsksASamplerAgainThatWasLostButNotForEver) {
  const grpc::Status lost(grpc::StatusCode::UNAVAILABLE, "socket closed");
  fake_sampler.statuses = {lost, lost};
  EXPECT_TRUE(Prepare().ok());
  fake_sampler.statuses = {lost, lost, lost};
  EXPECT_EQ(Prepare().status().code(), absl::StatusCode::kUnavailable);
}

// The caller, who has not left, must not be told that it has.
TEST_F(ConstraintPreparerTest, ASamplerThatIsStoppedIsALostOne) {
  const grpc::Status stopped(grpc::StatusCode::CANCELLED, "");
  fake_sampler.statuses = {stopped, stopped};
  EXPECT_TRUE(Prepare().ok());
  fake_sampler.statuses = {stopped, stopped, stopped};
  EXPECT_EQ(Prepare().status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(ConstraintPreparerTest, TellsTheSamplerThatTheCallerHasLeft) {
  fake_sampler.on_asked = [this] { caller->Cancel(); };
  EXPECT_EQ(Prepare().status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(fake_sampler.num_asked, 1);
  EXPECT_EQ(Prepare().status().code(), absl::StatusCode::kCancelled) << "before it is asked, too";
}

TEST_F(ConstraintPreparerTest, RefusesModelsThatCannotEndAText) {
  preparer = Make({});
  EXPECT_THAT(std::string(Prepare().status().message()), HasSubstr("no end-of-sequence token"));
  EXPECT_EQ(fake_tokenizer.num_pages, 0);
}

TEST_F(ConstraintPreparerTest, RefusesOnceStopped) {
  preparer->Stop();
  EXPECT_EQ(Prepare().status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(ConstraintPreparerTest, CountsWhatTheSamplerTookWhateverItAnswered) {
  meter = std::make_shared<WorkMeter>(absl::Milliseconds(10));
  fake_sampler.work_us = 3000;
  fake_sampler.statuses = {grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "no")};
  EXPECT_EQ(Prepare().status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(meter->total(), absl::Milliseconds(6)) << "two calls: one asks for the vocabulary";
  EXPECT_EQ(fake_sampler.max_work_us, 7000u);
  fake_sampler.statuses = {grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "took too long")};
  fake_sampler.work_us = 4001;
  const absl::Status ended = Prepare().status();
  EXPECT_EQ(fake_sampler.max_work_us, 4000u);
  EXPECT_EQ(ended.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(ended.message()), HasSubstr("constraint: max_request_work: "));
}

}  // namespace
}  // namespace sluice
