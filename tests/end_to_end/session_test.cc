// Sessions of the whole pipeline: calls in them are what Generate calls are.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>

#include "services/common/status.h"
#include "sluice/v1/generation_session.grpc.pb.h"
#include "tests/end_to_end/started_pipeline.h"

namespace sluice::testing {
namespace {

using ::testing::HasSubstr;

// A session, and what came of its calls.
class Session {
 public:
  explicit Session(const std::shared_ptr<grpc::Channel>& channel)
      : stub_(v1::GenerationSessionService::NewStub(channel)),
        stream_(stub_->OpenSession(&context_)) {}

  void Start(int64_t call, const std::string& request, int64_t timeout_ms = 0) {
    v1::OpenSessionRequest message;
    v1::SessionCommand& command = *message.add_commands();
    command.set_call(call);
    command.mutable_start()->set_request(request);
    if (timeout_ms > 0) command.mutable_start()->set_timeout_ms(timeout_ms);
    stream_->Write(message);
  }
  void Start(int64_t call, const v1::GenerateRequest& request, int64_t timeout_ms = 0) {
    Start(call, request.SerializeAsString(), timeout_ms);
  }
  void SetReading(int64_t call, bool reading) {
    v1::OpenSessionRequest message;
    v1::SessionCommand& command = *message.add_commands();
    command.set_call(call);
    command.mutable_set_reading()->set_reading(reading);
    stream_->Write(message);
  }
  void Cancel(int64_t call) {
    v1::OpenSessionRequest message;
    v1::SessionCommand& command = *message.add_commands();
    command.set_call(call);
    command.mutable_cancel();
    stream_->Write(message);
  }

  // Reads one message.
  void Read() {
    v1::OpenSessionResponse message;
    ASSERT_TRUE(stream_->Read(&message));
    for (const v1::SessionEvent& event : message.events()) Note(event);
  }
  // What came of a call, once it has ended.
  const Generated& End(int64_t call) {
    while (!ended_[call] && !::testing::Test::HasFatalFailure()) Read();
    return calls_[call];
  }
  const Generated& of(int64_t call) { return calls_[call]; }
  absl::Status Finish() {
    stream_->WritesDone();
    v1::OpenSessionResponse message;
    while (stream_->Read(&message)) {
    }
    return FromGrpc(stream_->Finish());
  }

 private:
  void Note(const v1::SessionEvent& event) {
    Generated& call = calls_[event.call()];
    if (event.has_end()) {
      ended_[event.call()] = true;
      call.status = FromGrpc(grpc::Status(static_cast<grpc::StatusCode>(event.end().code()),
                                          event.end().message(), event.end().details()));
    } else if (event.response().has_finished()) {
      call.finished = event.response().finished();
      ++call.num_finished;
    } else {
      const v1::Chunk& chunk = event.response().chunk();
      GeneratedSequence& sequence = call.sequences[chunk.sequence()];
      sequence.text += chunk.text();
      sequence.tokens.insert(sequence.tokens.end(), chunk.token_ids().begin(),
                             chunk.token_ids().end());
    }
  }

  grpc::ClientContext context_;
  std::unique_ptr<v1::GenerationSessionService::Stub> stub_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::OpenSessionRequest, v1::OpenSessionResponse>>
      stream_;
  std::map<int64_t, Generated> calls_;
  std::map<int64_t, bool> ended_;
};

TEST(SessionTest, CallsWriteWhatGenerateCallsWrite) {
  const StartedPipeline started = StartPipeline();
  Session session(started.pipeline->channel());
  constexpr int kCalls = 20;
  for (int i = 1; i <= kCalls; ++i) {
    v1::GenerateRequest request = SampledRequest(kPrompt, 30, i);
    request.set_n(2);
    session.Start(i, request);
  }
  for (int i = 1; i <= kCalls; ++i) {
    v1::GenerateRequest request = SampledRequest(kPrompt, 30, i);
    request.set_n(2);
    const Generated expected = started.client.Generate(request);
    const Generated& got = session.End(i);
    ASSERT_TRUE(got.status.ok()) << got.status;
    EXPECT_EQ(got.sequences, expected.sequences) << i;
    EXPECT_EQ(got.num_finished, 1);
    EXPECT_EQ(got.finished.usage().num_generated_tokens(),
              expected.finished.usage().num_generated_tokens());
  }
  EXPECT_TRUE(session.Finish().ok());
}

TEST(SessionTest, BadCallHarmsNoOther) {
  const StartedPipeline started = StartPipeline();
  Session session(started.pipeline->channel());
  session.Start(1, GreedyRequest(kPrompt, 40));
  session.Start(2, "\xff\xff no request");
  v1::GenerateRequest refused = GreedyRequest(kPrompt, 40);
  refused.mutable_sampling()->set_temperature(-1);
  session.Start(3, refused);
  EXPECT_THAT(std::string(session.End(2).status.message()),
              HasSubstr("the request is no sluice.v1.GenerateRequest"));
  EXPECT_EQ(session.End(2).status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(session.End(3).status.message()),
              HasSubstr("sampling.temperature is -1"));
  EXPECT_TRUE(session.End(1).status.ok());
  EXPECT_EQ(session.of(1).first().tokens.size(), 40);
  EXPECT_TRUE(session.Finish().ok());
}

TEST(SessionTest, TimeOfOneCallIsItsOwn) {
  const StartedPipeline started = StartPipeline();
  Session session(started.pipeline->channel());
  v1::GenerateRequest large = SampledRequest(kPrompt, 480, 1);
  large.set_n(16);
  session.Start(1, large, /*timeout_ms=*/30);
  session.Start(2, GreedyRequest(kPrompt, 20));
  EXPECT_EQ(session.End(1).status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(session.End(2).status.ok());
}

TEST(SessionTest, CallThatIsNotReadRestsAndGoesOn) {
  const StartedPipeline started = StartPipeline();
  Session session(started.pipeline->channel());
  v1::GenerateRequest request = GreedyRequest(kPrompt, 200);
  request.mutable_drafts()->set_decline(true);
  session.Start(1, request);
  while (session.of(1).sequences.empty()) session.Read();
  session.SetReading(1, false);
  // Whoever comes behind is served meanwhile, for longer than the first would have taken.
  v1::GenerateRequest longer = GreedyRequest(kPrompt, 400);
  longer.mutable_drafts()->set_decline(true);
  session.Start(2, longer);
  EXPECT_TRUE(session.End(2).status.ok());
  EXPECT_LT(session.of(1).first().tokens.size(), 200);
  session.SetReading(1, true);
  EXPECT_TRUE(session.End(1).status.ok());
  EXPECT_EQ(session.of(1).first(), started.client.Generate(request).first());
}

TEST(SessionTest, CallThatIsLeftEndsOnTheServer) {
  const StartedPipeline started = StartPipeline();
  Session session(started.pipeline->channel());
  session.Start(1, GreedyRequest(kPrompt, 480));
  while (session.of(1).sequences.empty()) session.Read();
  session.Cancel(1);
  session.Start(2, GreedyRequest(kPrompt, 40));
  EXPECT_TRUE(session.End(2).status.ok());
  EXPECT_EQ(started.client.GetStatus()->num_running_sequences(), 0);
}

}  // namespace
}  // namespace sluice::testing
