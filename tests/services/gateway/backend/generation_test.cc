// Generations against orchestrators that do what a test says: in sessions, and without them.
#include "services/gateway/backend/generation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "services/common/status.h"
#include "services/messages/retry_info.h"
#include "services/rpc/server.h"

namespace sluice::gateway {
namespace {

using ::testing::ElementsAre;

// Runs its tasks on the test's thread; what is to come later comes at once.
class GenerationLoop final : public http::Loop {
 public:
  void Post(std::function<void()> task) override {
    absl::MutexLock lock(&mutex_);
    tasks_.push_back(std::move(task));
  }
  void After(absl::Duration, std::function<void()> task) override { Post(std::move(task)); }

  void RunUntil(const std::function<bool()>& done) {
    while (!done()) Next()();
  }

 private:
  std::function<void()> Next() {
    absl::MutexLock lock(&mutex_);
    const auto some = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !tasks_.empty(); };
    if (!mutex_.AwaitWithTimeout(absl::Condition(&some), absl::Minutes(1))) {
      ADD_FAILURE() << "nothing happens any more";
      std::abort();
    }
    std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    return task;
  }

  absl::Mutex mutex_;
  std::deque<std::function<void()>> tasks_ ABSL_GUARDED_BY(mutex_);
};

using SessionStream = grpc::ServerReaderWriter<v1::OpenSessionResponse, v1::OpenSessionRequest>;

// A session's commands, one by one, however they come.
class Commands {
 public:
  explicit Commands(SessionStream& stream) : stream_(stream) {}
  v1::SessionCommand Next() {
    while (next_ == request_.commands_size()) {
      next_ = 0;
      if (!stream_.Read(&request_)) return {};
    }
    return request_.commands(next_++);
  }

 private:
  SessionStream& stream_;
  v1::OpenSessionRequest request_;
  int next_ = 0;
};

// What a test has the server do with its sessions, and what the server saw.
class Sessions final : public v1::GenerationSessionService::Service {
 public:
  using Script =
      std::function<grpc::Status(int session, Commands& commands, SessionStream& stream)>;
  explicit Sessions(Script script) : script_(std::move(script)) {}

  grpc::Status OpenSession(grpc::ServerContext*, SessionStream* stream) override {
    Commands commands(*stream);
    return script_(++num_sessions, commands, *stream);
  }
  std::atomic<int> num_sessions{0};

 private:
  const Script script_;
};

class Calls final : public v1::GenerationService::Service {
 public:
  using Writer = grpc::ServerWriter<v1::GenerateResponse>;
  using Script =
      std::function<grpc::Status(int call, const v1::GenerateRequest& request, Writer& writer)>;
  explicit Calls(Script script) : script_(std::move(script)) {}

  grpc::Status Generate(grpc::ServerContext*, const v1::GenerateRequest* request,
                        Writer* writer) override {
    return script_(++num_calls, *request, *writer);
  }
  std::atomic<int> num_calls{0};

 private:
  const Script script_;
};

v1::GenerateResponse TokenEvent(int token) {
  v1::GenerateResponse response;
  response.mutable_chunk()->add_token_ids(token);
  return response;
}

v1::GenerateResponse FinishedEvent() {
  v1::GenerateResponse response;
  response.mutable_finished()->add_sequences();
  return response;
}

void Write(SessionStream& stream, int64_t call, v1::GenerateResponse event) {
  v1::OpenSessionResponse message;
  v1::SessionEvent& added = *message.add_events();
  added.set_call(call);
  *added.mutable_response() = std::move(event);
  stream.Write(message);
}

void End(SessionStream& stream, int64_t call, const absl::Status& status) {
  v1::OpenSessionResponse message;
  v1::SessionEvent& added = *message.add_events();
  added.set_call(call);
  const grpc::Status end = ToGrpc(status);
  added.mutable_end()->set_code(end.error_code());
  added.mutable_end()->set_message(end.error_message());
  added.mutable_end()->set_details(end.error_details());
  stream.Write(message);
}

std::vector<int> Resumed(const v1::GenerateRequest& request) {
  if (request.resume().empty()) return {};
  return {request.resume(0).token_ids().begin(), request.resume(0).token_ids().end()};
}

v1::GenerateRequest RequestOf(const v1::SessionCommand& message) {
  v1::GenerateRequest request;
  EXPECT_TRUE(message.has_start());
  EXPECT_TRUE(request.ParseFromString(message.start().request()));
  return request;
}

// A backend of one orchestrator, and the loop that generations run on.
class GenerationTest : public ::testing::Test {
 protected:
  ~GenerationTest() override {
    generations_.clear();
    ShutDown();
  }

  // While the loop goes on, which sessions need for their end.
  void ShutDown() {
    std::atomic<bool> is_over = false;
    std::thread thread([&] {
      backend_->Shutdown();
      is_over = true;
      loop_.Post([] {});
    });
    loop_.RunUntil([&] { return is_over.load(); });
    thread.join();
  }

  void Serve(std::vector<grpc::Service*> services) {
    server_ = *Server::Start({.address = "inproc:it", .services = std::move(services)});
    backend_ = std::make_unique<Backend>(
        std::vector{server_->grpc_server()->InProcessChannel(grpc::ChannelArguments())},
        BackendOptions());
  }

  struct Heard {
    std::vector<int> tokens;
    bool finished = false;
    absl::Status failure;
    bool over() const { return finished || !failure.ok(); }
  };

  std::shared_ptr<Heard> Generate(const std::string& authorization = "", size_t text_bytes = 1) {
    auto heard = std::make_shared<Heard>();
    v1::GenerateRequest request;
    request.set_text(std::string(text_bytes, 'x'));
    generations_.push_back(Generation::Start(
        *backend_, {.loop = &loop_, .authorization = authorization}, request,
        {.on_chunk =
             [heard](const v1::Chunk& chunk) {
               heard->tokens.insert(heard->tokens.end(), chunk.token_ids().begin(),
                                    chunk.token_ids().end());
             },
         .on_finished = [heard](const v1::Finished&) { heard->finished = true; },
         .on_failed = [heard](const absl::Status& status) { heard->failure = status; }}));
    return heard;
  }

  GenerationLoop loop_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<Backend> backend_;
  std::vector<std::shared_ptr<Generation>> generations_;
};

TEST_F(GenerationTest, GoesOnWhereAnEndingServerCancelsItsSession) {
  std::vector<int> resumed;
  Sessions sessions([&](int session, Commands& commands, SessionStream& stream) {
    const v1::SessionCommand start = commands.Next();
    if (session == 1) {
      Write(stream, start.call(), TokenEvent(7));
      Write(stream, start.call(), TokenEvent(8));
      return grpc::Status::CANCELLED;
    }
    resumed = Resumed(RequestOf(start));
    Write(stream, start.call(), TokenEvent(9));
    Write(stream, start.call(), FinishedEvent());
    End(stream, start.call(), absl::OkStatus());
    commands.Next();
    return grpc::Status::OK;
  });
  Serve({&sessions});
  const auto heard = Generate();
  loop_.RunUntil([&] { return heard->over(); });
  EXPECT_TRUE(heard->finished) << heard->failure;
  EXPECT_THAT(heard->tokens, ElementsAre(7, 8, 9));
  EXPECT_THAT(resumed, ElementsAre(7, 8));
  EXPECT_EQ(backend_->meter().num_resumed, 1);
}

TEST_F(GenerationTest, GoesOnWhereAnEndingServerCancelsACallOfItsOwn) {
  std::vector<int> resumed;
  Calls calls([&](int call, const v1::GenerateRequest& request, Calls::Writer& writer) {
    writer.Write(TokenEvent(call));
    if (call == 1) return grpc::Status::CANCELLED;
    resumed = Resumed(request);
    writer.Write(FinishedEvent());
    return grpc::Status::OK;
  });
  Serve({&calls});  // that knows of no sessions
  const auto heard = Generate();
  loop_.RunUntil([&] { return heard->over(); });
  EXPECT_TRUE(heard->finished) << heard->failure;
  EXPECT_THAT(heard->tokens, ElementsAre(1, 2));
  EXPECT_THAT(resumed, ElementsAre(1));
}

TEST_F(GenerationTest, StatusOfOneCallConcernsNoOther) {
  Sessions sessions([&](int, Commands& commands, SessionStream& stream) {
    const int64_t first = commands.Next().call(), second = commands.Next().call();
    End(stream, first, WithRetryDelay(absl::ResourceExhaustedError("full"), absl::Seconds(3)));
    Write(stream, second, TokenEvent(5));
    Write(stream, second, FinishedEvent());
    commands.Next();
    return grpc::Status::OK;
  });
  Serve({&sessions});
  const auto first = Generate(), second = Generate();
  loop_.RunUntil([&] { return first->over() && second->over(); });
  EXPECT_EQ(first->failure.message(), "full");
  EXPECT_EQ(RetryDelay(first->failure), absl::Seconds(3));
  EXPECT_TRUE(second->finished);
  EXPECT_EQ(sessions.num_sessions, 1);
}

// More than a message may have would end the session, and with it every call.
TEST_F(GenerationTest, WhatGathersWhileTheServerDoesNotReadComesInSeveralMessages) {
  constexpr int kCalls = 60;
  absl::Notification all_asked;
  size_t largest = 0;
  Sessions sessions([&](int, Commands&, SessionStream& stream) {
    all_asked.WaitForNotification();
    v1::OpenSessionRequest request;
    for (int64_t call = 0; call < kCalls && stream.Read(&request);) {
      largest = std::max(largest, request.ByteSizeLong());
      for (const v1::SessionCommand& command : request.commands()) {
        EXPECT_EQ(command.call(), ++call);
        Write(stream, call, FinishedEvent());
        End(stream, call, absl::OkStatus());
      }
    }
    stream.Read(&request);
    return grpc::Status::OK;
  });
  Serve({&sessions});
  std::vector<std::shared_ptr<Heard>> heard;
  for (int i = 0; i < kCalls; ++i) heard.push_back(Generate("", size_t{250} << 10));
  all_asked.Notify();
  for (const auto& one : heard) loop_.RunUntil([&] { return one->over(); });
  for (const auto& one : heard) EXPECT_TRUE(one->finished) << one->failure;
  EXPECT_LT(largest, size_t{5} << 20);
  EXPECT_EQ(sessions.num_sessions, 1);
}

TEST_F(GenerationTest, EachCallSaysWhoMakesIt) {
  std::vector<std::string> callers;
  Sessions sessions([&](int, Commands& commands, SessionStream& stream) {
    for (int i = 0; i < 2; ++i) {
      const v1::SessionCommand start = commands.Next();
      callers.push_back(start.start().authorization());
      Write(stream, start.call(), FinishedEvent());
    }
    commands.Next();
    return grpc::Status::OK;
  });
  Serve({&sessions});
  const auto first = Generate("Bearer one"), second = Generate("Bearer \xff");
  loop_.RunUntil([&] { return first->over() && second->over(); });
  EXPECT_THAT(callers, ElementsAre("Bearer one", "Bearer \xff"));
}

TEST_F(GenerationTest, PauseAndEndAreToldToTheServer) {
  std::vector<v1::SessionCommand> said;
  Sessions sessions([&](int, Commands& commands, SessionStream& stream) {
    const v1::SessionCommand start = commands.Next();
    Write(stream, start.call(), TokenEvent(1));
    for (int i = 0; i < 3; ++i) said.push_back(commands.Next());
    Write(stream, start.call(), TokenEvent(2));  // was on its way
    Write(stream, commands.Next().call(), FinishedEvent());
    commands.Next();
    return grpc::Status::OK;
  });
  Serve({&sessions});
  const auto left = Generate();
  loop_.RunUntil([&] { return !left->tokens.empty(); });
  generations_[0]->Pause();
  generations_[0]->Pause();
  generations_[0]->Resume();
  generations_[0]->Cancel();
  const auto next = Generate();
  loop_.RunUntil([&] { return next->over(); });
  ASSERT_EQ(said.size(), 3);
  EXPECT_TRUE(said[0].has_set_reading() && !said[0].set_reading().reading());
  EXPECT_TRUE(said[1].set_reading().reading());
  EXPECT_TRUE(said[2].has_cancel());
  EXPECT_THAT(left->tokens, ElementsAre(1));  // nothing behind its end
  EXPECT_FALSE(left->over());
  EXPECT_EQ(sessions.num_sessions, 1);  // a call that was left is not made again
}

TEST_F(GenerationTest, DrainingServerGetsNoMoreCallsInThatSession) {
  Sessions sessions([&](int session, Commands& commands, SessionStream& stream) {
    const int64_t call = commands.Next().call();
    if (session == 1) {
      v1::OpenSessionResponse draining;
      draining.set_draining(true);
      stream.Write(draining);
      Write(stream, call, TokenEvent(session));
      commands.Next();  // the end of the first call, which the test leaves
      return grpc::Status::OK;
    }
    Write(stream, call, TokenEvent(session));
    Write(stream, call, FinishedEvent());
    commands.Next();
    return grpc::Status::OK;
  });
  Serve({&sessions});
  const auto first = Generate();
  loop_.RunUntil([&] { return !first->tokens.empty(); });
  const auto second = Generate();
  loop_.RunUntil([&] { return second->over(); });
  EXPECT_THAT(second->tokens, ElementsAre(2));
  EXPECT_THAT(first->tokens, ElementsAre(1));
}

TEST_F(GenerationTest, CallsThatAreLeftAtShutdownEnd) {
  Sessions sessions([&](int, Commands& commands, SessionStream& stream) {
    Write(stream, commands.Next().call(), TokenEvent(1));
    commands.Next();
    return grpc::Status::OK;
  });
  Serve({&sessions});
  const auto heard = Generate();
  loop_.RunUntil([&] { return !heard->tokens.empty(); });
  ShutDown();
  loop_.RunUntil([&] { return heard->over(); });
  EXPECT_EQ(heard->failure.code(), absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace sluice::gateway
