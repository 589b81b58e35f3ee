// Sessions over an in-process server, with calls that do what a test says.
#include "orchestrator/api/generation_session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "services/common/status.h"
#include "services/messages/retry_info.h"
#include "services/rpc/server.h"
#include "sluice/v1/generation_session.grpc.pb.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

v1::GenerateResponse EventOf(int token, size_t text_bytes = 0) {
  v1::GenerateResponse response;
  response.mutable_chunk()->add_token_ids(token);
  response.mutable_chunk()->set_text(std::string(text_bytes, 'x'));
  return response;
}

// Keeps the streams of the calls that began, by the request's bytes.
class SessionService final : public v1::GenerationSessionService::WithRawCallbackMethod_OpenSession<
                                 v1::GenerationSessionService::Service> {
 public:
  struct Begun {
    std::shared_ptr<CallStream> stream;
    bool left = false;
    std::vector<bool> reads;
  };

  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* OpenSession(
      grpc::CallbackServerContext*) override {
    const auto started = GenerationSession::Start(
        [this](const v1::StartCall& start, std::shared_ptr<CallStream> stream) {
          Begin(start.request(), std::move(stream));
        });
    absl::MutexLock lock(&mutex_);
    session = started;
    return started.get();
  }

  // The call that began with these bytes, once `happened` is true of it.
  template <class Predicate>
  std::shared_ptr<CallStream> Await(const std::string& name, const Predicate& happened) {
    absl::MutexLock lock(&mutex_);
    const auto met = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      const auto found = begun_.find(name);
      return found != begun_.end() && happened(found->second);
    };
    EXPECT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(&met), absl::Minutes(1))) << name;
    return begun_[name].stream;
  }
  std::shared_ptr<CallStream> Await(const std::string& name) {
    return Await(name, [](const Begun&) { return true; });
  }
  void Forget() {
    absl::MutexLock lock(&mutex_);
    begun_.clear();
  }

  std::weak_ptr<GenerationSession> session;

 private:
  void Begin(const std::string& name, std::shared_ptr<CallStream> stream) {
    stream->Watch({.on_cancel =
                       [this, name] {
                         absl::MutexLock lock(&mutex_);
                         begun_[name].left = true;
                       },
                   .on_reading =
                       [this, name](bool reads) {
                         absl::MutexLock lock(&mutex_);
                         begun_[name].reads.push_back(reads);
                       }});
    absl::MutexLock lock(&mutex_);
    begun_[name].stream = std::move(stream);
  }

  absl::Mutex mutex_;
  std::map<std::string, Begun> begun_ ABSL_GUARDED_BY(mutex_);
};

class GenerationSessionTest : public ::testing::Test {
 protected:
  GenerationSessionTest()
      : server_(*Server::Start({.address = "inproc:it", .services = {&service_}})),
        stub_(v1::GenerationSessionService::NewStub(
            server_->grpc_server()->InProcessChannel(grpc::ChannelArguments()))),
        stream_(stub_->OpenSession(&context_)) {}
  ~GenerationSessionTest() override { service_.Forget(); }

  void Begin(int64_t call, const std::string& name) {
    v1::OpenSessionRequest request;
    v1::SessionCommand& command = *request.add_commands();
    command.set_call(call);
    command.mutable_start()->set_request(name);
    stream_->Write(request);
  }
  void Cancel(int64_t call) {
    v1::OpenSessionRequest request;
    v1::SessionCommand& command = *request.add_commands();
    command.set_call(call);
    command.mutable_cancel();
    stream_->Write(request);
  }
  void SetReading(int64_t call, bool reading) {
    v1::OpenSessionRequest request;
    v1::SessionCommand& command = *request.add_commands();
    command.set_call(call);
    command.mutable_set_reading()->set_reading(reading);
    stream_->Write(request);
  }
  // The next event, whichever message it comes in. One without a call where the session has ended.
  v1::SessionEvent Next() {
    while (next_ == message_.events_size()) {
      next_ = 0;
      if (!stream_->Read(&message_)) return {};
      draining_ = draining_ || message_.draining();
    }
    return message_.events(next_++);
  }
  absl::Status Finish() {
    while (stream_->Read(&message_)) draining_ = draining_ || message_.draining();
    return FromGrpc(stream_->Finish());
  }

  SessionService service_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<v1::GenerationSessionService::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::OpenSessionRequest, v1::OpenSessionResponse>>
      stream_;
  v1::OpenSessionResponse message_;
  int next_ = 0;
  bool draining_ = false;
};

TEST_F(GenerationSessionTest, CallsEndOneByOneAndTheSessionBehindTheLast) {
  Begin(1, "one");
  Begin(5, "two");
  const auto one = service_.Await("one"), two = service_.Await("two");
  one->Send(EventOf(11));
  EXPECT_EQ(Next().response().chunk().token_ids(0), 11);
  one->Close(WithRetryDelay(absl::ResourceExhaustedError("full \xff"), absl::Seconds(2)));
  one->Send(EventOf(12));  // of no effect
  v1::SessionEvent end = Next();
  EXPECT_EQ(end.call(), 1);
  const absl::Status status = FromGrpc(grpc::Status(static_cast<grpc::StatusCode>(end.end().code()),
                                                    end.end().message(), end.end().details()));
  EXPECT_EQ(status.message(), "full \xff");
  EXPECT_EQ(RetryDelay(status), absl::Seconds(2));
  stream_->WritesDone();
  two->Send(EventOf(21));
  two->Close(absl::OkStatus());
  const v1::SessionEvent event = Next();
  EXPECT_EQ(event.call(), 5);
  EXPECT_EQ(event.response().chunk().token_ids(0), 21);
  end = Next();
  EXPECT_TRUE(end.has_end() && end.end().code() == 0);
  EXPECT_TRUE(Finish().ok());
}

TEST_F(GenerationSessionTest, WhatComesWhileAMessageIsWrittenGoesTogether) {
  Begin(1, "one");
  const auto one = service_.Await("one");
  constexpr int kEvents = 2000;
  for (int i = 0; i < kEvents; ++i) one->Send(EventOf(i, 100));
  int num_messages = 0, num_events = 0;
  while (num_events < kEvents) {
    ASSERT_TRUE(stream_->Read(&message_));
    ++num_messages;
    for (const v1::SessionEvent& event : message_.events()) {
      EXPECT_EQ(event.response().chunk().token_ids(0), num_events++);
    }
  }
  EXPECT_LT(num_messages, kEvents / 2);
  stream_->WritesDone();
  one->Close(absl::OkStatus());
  EXPECT_TRUE(Finish().ok());
}

TEST_F(GenerationSessionTest, CallThatIsLeftHearsOfItAndSendsNoMore) {
  Begin(1, "one");
  Begin(2, "two");
  service_.Await("two");
  Cancel(1);
  const auto one = service_.Await("one", [](const auto& begun) { return begun.left; });
  one->Send(EventOf(1));
  one->Close(absl::CancelledError("left"));
  service_.Await("two")->Close(absl::OkStatus());
  EXPECT_EQ(Next().call(), 2);
  Cancel(1);  // of a call that has ended
  Cancel(77);
  SetReading(1, false);
  stream_->WritesDone();
  EXPECT_TRUE(Finish().ok());
}

TEST_F(GenerationSessionTest, CallHearsWhetherItsClientReads) {
  Begin(1, "one");
  SetReading(1, false);
  SetReading(1, false);
  SetReading(1, true);
  const auto one = service_.Await("one", [](const auto& begun) { return begun.reads.size() == 2; });
  service_.Await("one", [](const auto& begun) { return !begun.reads[0] && begun.reads[1]; });
  one->Close(absl::OkStatus());
  stream_->WritesDone();
  EXPECT_TRUE(Finish().ok());
}

TEST_F(GenerationSessionTest, EveryCallRestsWhileTheSessionIsNotRead) {
  Begin(1, "one");
  Begin(2, "two");
  const auto one = service_.Await("one"), two = service_.Await("two");
  const auto rests = [](const auto& begun) { return !begun.reads.empty() && !begun.reads.back(); };
  constexpr int kEvents = 64;
  for (int i = 0; i < kEvents; ++i) one->Send(EventOf(i, kMostUnreadBytes / 32));
  service_.Await("one", rests);
  service_.Await("two", rests);
  for (int i = 0; i < kEvents; ++i) EXPECT_EQ(Next().response().chunk().token_ids(0), i);
  const auto reads = [](const auto& begun) { return begun.reads.back(); };
  service_.Await("one", reads);
  service_.Await("two", reads);
  Begin(3, "three");  // is read again
  service_.Await("three")->Close(absl::OkStatus());
  one->Close(absl::OkStatus());
  two->Close(absl::OkStatus());
  stream_->WritesDone();
  EXPECT_TRUE(Finish().ok());
}

TEST_F(GenerationSessionTest, LeavingTheSessionLeavesItsCalls) {
  Begin(1, "one");
  service_.Await("one");
  context_.TryCancel();
  service_.Await("one", [](const auto& begun) { return begun.left; });
  EXPECT_EQ(Finish().code(), absl::StatusCode::kCancelled);
}

TEST_F(GenerationSessionTest, DrainingServerTakesNoMoreCallsAndEndsBehindTheLast) {
  Begin(1, "one");
  const auto one = service_.Await("one");
  service_.session.lock()->Drain();
  Begin(2, "two");
  const v1::SessionEvent refused = Next();
  EXPECT_TRUE(draining_);
  EXPECT_EQ(refused.call(), 2);
  EXPECT_EQ(refused.end().code(), grpc::StatusCode::UNAVAILABLE);
  one->Send(EventOf(1));
  EXPECT_EQ(Next().response().chunk().token_ids(0), 1);
  one->Close(absl::OkStatus());
  EXPECT_TRUE(Finish().ok());
}

TEST_F(GenerationSessionTest, NumbersThatDoNotGrowEndTheSession) {
  Begin(3, "one");
  service_.Await("one");
  Begin(3, "again");
  const absl::Status status = Finish();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("call 3 begins behind call 3"));
  service_.Await("one", [](const auto& begun) { return begun.left; });
}

TEST_F(GenerationSessionTest, EmptyCommandEndsTheSession) {
  v1::OpenSessionRequest request;
  request.add_commands();
  stream_->Write(request);
  EXPECT_EQ(Finish().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(GenerationSessionTest, MessageWithoutCommandsOrWithTooManyEndsTheSession) {
  v1::OpenSessionRequest request;
  for (int i = 0; i <= GenerationSession::kMostCommands; ++i) request.add_commands()->set_call(1);
  stream_->Write(request);
  const absl::Status status = Finish();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("the number of commands is 4097; accepted: 1 to 4096"));
  grpc::ClientContext context;
  const auto other = stub_->OpenSession(&context);
  other->Write({});
  EXPECT_EQ(other->Finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(GenerationSessionTest, OneCallTooManyIsPutOff) {
  for (size_t i = 1; i <= GenerationSession::kMostCalls; ++i)
    Begin(static_cast<int64_t>(i), "many");
  Begin(GenerationSession::kMostCalls + 1, "last");
  const v1::SessionEvent event = Next();
  EXPECT_EQ(event.call(), GenerationSession::kMostCalls + 1);
  EXPECT_EQ(event.end().code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  context_.TryCancel();
  Finish().IgnoreError();
}

TEST_F(GenerationSessionTest, TimeoutBelowOneMillisecondIsRefused) {
  v1::OpenSessionRequest request;
  v1::SessionCommand& command = *request.add_commands();
  command.set_call(1);
  command.mutable_start()->set_timeout_ms(0);
  stream_->Write(request);
  const v1::SessionEvent event = Next();
  EXPECT_EQ(event.end().code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(event.end().message(), HasSubstr("timeout_ms is 0; accepted: 1 or more"));
  stream_->WritesDone();
  EXPECT_TRUE(Finish().ok());
}

}  // namespace
}  // namespace sluice
