// The C++ library against services that say what the test tells them to, and break when told.
#include "clients/cpp/client.h"

#include <gmock/gmock.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "clients/cpp/call.h"
#include "services/process/stop_signal.h"
#include "tests/clients/cli/fake_pipeline.h"

namespace sluice::testing {
namespace {

using ::sluice::client::Cancellation;
using ::sluice::client::Client;
using ::sluice::client::ClientOptions;
using ::sluice::client::Generation;

using ::testing::HasSubstr;

constexpr int kNumTokens = 12;

TEST(ClientTest, RefusesATokenThatNoMetadataCanHold) {
  FakePipeline pipeline(DefaultAnswers());
  for (const char* token : {"tok\xc3\xa9n", "a\tb", "\xff"}) {
    const auto client = Client::Connect(pipeline.endpoint(), {.token = token});
    ASSERT_TRUE(client.ok());
    const absl::Status unary = (*client)->GetModel().status();
    EXPECT_EQ(unary.code(), absl::StatusCode::kInvalidArgument) << unary;
    EXPECT_THAT(std::string(unary.message()), ::testing::Not(HasSubstr(token)));
    Generation stream = (*client)->Generate(v1::GenerateRequest());
    EXPECT_FALSE(stream.Next().has_value());
    EXPECT_EQ(stream.status().code(), absl::StatusCode::kInvalidArgument);
  }
}

// What token follows those of a sequence, of a model that is sure of itself.
int NextToken(uint64_t seed, int sequence, int position) {
  return static_cast<int>(seed % 7) * 1000 + sequence * 100 + position;
}

// Writes what a request asks for, but loses the connection after `before_loss` events.
absl::Status Write(const v1::GenerateRequest& request, const WriteEvent& write, int before_loss,
                   uint64_t drawn_seed = 4) {
  const uint64_t seed = request.sampling().has_seed() ? request.sampling().seed() : drawn_seed;
  const int n = std::max(1, request.n());
  std::vector<int> have(n);
  for (int i = 0; i < request.resume_size(); ++i) have[i] = request.resume(i).token_ids_size();
  bool first = true;
  for (int position = 0; position < kNumTokens; ++position) {
    for (int i = 0; i < n; ++i) {
      if (have[i] > position) continue;
      if (before_loss-- == 0) return absl::UnavailableError("the orchestrator was lost");
      const int token = NextToken(seed, i, position);
      v1::GenerateResponse event = TextEvent(i, absl::StrCat(token, " "), {token});
      if (std::exchange(first, false)) event.mutable_started()->set_seed(seed);
      write(event);
    }
  }
  write(FinishedEvent(n, n * kNumTokens));
  return absl::OkStatus();
}

// Each call loses its connection after so many events; the last number counts from then on.
FakeAnswers LosingAfter(std::vector<int> events, uint64_t drawn_seed = 4) {
  FakeAnswers answers = DefaultAnswers();
  auto calls = std::make_shared<std::atomic<size_t>>(0);
  answers.generate = [=](const v1::GenerateRequest& request, const WriteEvent& write) {
    return Write(request, write, events[std::min((*calls)++, events.size() - 1)], drawn_seed);
  };
  return answers;
}

std::unique_ptr<Client> ClientOf(const std::string& endpoints, ClientOptions options = {}) {
  auto client = Client::Connect(endpoints, std::move(options));
  EXPECT_TRUE(client.ok()) << client.status();
  return *std::move(client);
}

struct Heard {
  std::vector<std::string> texts;
  int num_finished = 0;
  int num_resumptions = 0;
  absl::Status status;
};

Heard Hear(Generation generation, int n = 1) {
  Heard heard{.texts = std::vector<std::string>(n), .status = {}};
  while (const auto event = generation.Next()) {
    heard.num_finished += event->has_finished() ? 1 : 0;
    if (event->has_chunk()) heard.texts.at(event->chunk().sequence()) += event->chunk().text();
  }
  heard.num_resumptions = generation.num_resumptions();
  heard.status = generation.status();
  return heard;
}

// What an undisturbed call brings.
std::vector<std::string> Undisturbed(uint64_t seed, int n = 1) {
  std::vector<std::string> texts(n);
  for (int i = 0; i < n; ++i) {
    for (int position = 0; position < kNumTokens; ++position) {
      absl::StrAppend(&texts[i], NextToken(seed, i, position), " ");
    }
  }
  return texts;
}

v1::GenerateRequest Asking(int n = 1) {
  v1::GenerateRequest request;
  request.set_text("Once");
  if (n > 1) request.set_n(n);
  return request;
}

TEST(ClientTest, StreamsUntilTheLastEvent) {
  FakePipeline pipeline(LosingAfter({1000}));
  const Heard heard = Hear(ClientOf(pipeline.endpoint())->Generate(Asking()));
  EXPECT_TRUE(heard.status.ok()) << heard.status;
  EXPECT_EQ(heard.texts, Undisturbed(4));
  EXPECT_EQ(heard.num_finished, 1);
  EXPECT_EQ(heard.num_resumptions, 0);
}

TEST(ClientTest, GoesOnAtTheSameEndpointWithTheSeedThatTheServerDrew) {
  FakePipeline pipeline(LosingAfter({3, 0, 4, 1000}));
  const Heard heard = Hear(ClientOf(pipeline.endpoint())->Generate(Asking()));
  EXPECT_TRUE(heard.status.ok()) << heard.status;
  EXPECT_EQ(heard.texts, Undisturbed(4));
  EXPECT_EQ(heard.num_finished, 1);
  EXPECT_EQ(heard.num_resumptions, 3);
  const std::vector<v1::GenerateRequest> requests = pipeline.requests();
  ASSERT_EQ(requests.size(), 4u);
  EXPECT_FALSE(requests[0].sampling().has_seed());
  EXPECT_EQ(requests[3].sampling().seed(), 4u);
  EXPECT_EQ(requests[3].resume(0).token_ids_size(), 7);
}

TEST(ClientTest, GoesOnAtTheNextEndpointWithEverySequence) {
  FakePipeline first(LosingAfter({7, 0}));
  FakePipeline second(LosingAfter({1000}, /*drawn_seed=*/5));
  const auto client = ClientOf(first.endpoint() + "," + second.endpoint());
  const Heard heard = Hear(client->Generate(Asking(3)), 3);
  EXPECT_TRUE(heard.status.ok()) << heard.status;
  EXPECT_EQ(heard.texts, Undisturbed(4, 3));
  EXPECT_EQ(heard.num_resumptions, 1);
  ASSERT_EQ(second.requests().size(), 1u);
  EXPECT_EQ(second.requests()[0].resume_size(), 3);
  // The next call goes where this one ended.
  EXPECT_EQ(Hear(client->Generate(Asking())).texts, Undisturbed(5));
  EXPECT_EQ(second.requests().size(), 2u);
}

TEST(ClientTest, SendsPromptsThatBeginAlikeToOneEndpointAndOthersToAll) {
  FakeAnswers answers = LosingAfter({1000});
  FakePipeline first(answers), second(answers);
  auto client = *Client::Connect(absl::StrCat(first.endpoint(), ",", second.endpoint()));
  const auto send = [&client](const std::string& text) {
    v1::GenerateRequest request;
    request.set_text(text);
    Generation stream = client->Generate(request);
    while (stream.Next().has_value()) {
    }
    EXPECT_TRUE(stream.status().ok()) << stream.status();
  };
  for (int i = 0; i < 16; ++i) {
    const size_t before = first.requests().size();
    const std::string beginning = absl::StrCat(i, std::string(300, 'x'));
    for (const char* end : {"", "one", "another"}) send(beginning + end);
    EXPECT_EQ((first.requests().size() - before) % 3, 0u) << "prompt " << i;
  }
  EXPECT_GE(first.requests().size(), 6u);
  EXPECT_GE(second.requests().size(), 6u);
}

TEST(ClientTest, AsksAnotherWhereNobodyListens) {
  FakePipeline pipeline(LosingAfter({1000}));
  const Heard heard = Hear(ClientOf("127.0.0.1:1," + pipeline.endpoint())->Generate(Asking()));
  EXPECT_TRUE(heard.status.ok()) << heard.status;
  EXPECT_EQ(heard.texts, Undisturbed(4));
}

TEST(ClientTest, GivesUpInTheEnd) {
  FakePipeline pipeline(LosingAfter({3, 0}));
  const Heard heard =
      Hear(ClientOf(pipeline.endpoint(), {.resume_timeout = absl::Milliseconds(100)})
               ->Generate(Asking()));
  EXPECT_EQ(heard.status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(heard.num_finished, 0);
  EXPECT_EQ(heard.texts[0], "4000 4001 4002 ");
}

TEST(ClientTest, WhatIsNoLossIsTheAnswer) {
  FakeAnswers answers = DefaultAnswers();
  answers.generate = [](const v1::GenerateRequest&, const WriteEvent& write) {
    write(TextEvent(0, "a", {1}));
    return absl::InternalError("poison");
  };
  FakePipeline pipeline(answers);
  const Heard heard = Hear(ClientOf(pipeline.endpoint())->Generate(Asking()));
  EXPECT_EQ(heard.status, absl::InternalError("poison"));
  EXPECT_EQ(pipeline.requests().size(), 1u);
}

TEST(ClientTest, GoesOnWhereAServerThatShutsDownCancelsTheCall) {
  FakeAnswers answers = DefaultAnswers();
  auto calls = std::make_shared<std::atomic<int>>(0);
  answers.generate = [=](const v1::GenerateRequest& request, const WriteEvent& write) {
    if ((*calls)++ == 0) return absl::CancelledError("");
    return Write(request, write, 1000);
  };
  FakePipeline pipeline(answers);
  Cancellation unused;
  const Heard heard =
      Hear(ClientOf(pipeline.endpoint())->Generate(Asking(), {.cancellation = &unused}));
  EXPECT_TRUE(heard.status.ok()) << heard.status;
  EXPECT_EQ(heard.texts, Undisturbed(4));
  EXPECT_EQ(pipeline.requests().size(), 2u);
}

TEST(ClientTest, AStreamOfUnknownSeedIsNotGuessed) {
  FakeAnswers answers = DefaultAnswers();  // of an older server, that says no seed
  answers.generate = [](const v1::GenerateRequest&, const WriteEvent& write) {
    write(TextEvent(0, "a", {1}));
    return absl::UnavailableError("lost");
  };
  FakePipeline pipeline(answers);
  const Heard heard = Hear(ClientOf(pipeline.endpoint())->Generate(Asking()));
  EXPECT_EQ(heard.status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(pipeline.requests().size(), 1u);
}

TEST(ClientTest, AnEndWithoutALastEventIsAnError) {
  FakeAnswers answers = DefaultAnswers();
  answers.generate = [](const v1::GenerateRequest&, const WriteEvent&) { return absl::OkStatus(); };
  FakePipeline pipeline(answers);
  EXPECT_EQ(Hear(ClientOf(pipeline.endpoint())->Generate(Asking())).status.code(),
            absl::StatusCode::kInternal);
}

TEST(ClientTest, EndsAtItsTimeoutHoweverOftenItIsMade) {
  FakePipeline pipeline(LosingAfter({3, 0}));
  const Heard heard =
      Hear(ClientOf(pipeline.endpoint())->Generate(Asking(), {.timeout = absl::Milliseconds(150)}));
  EXPECT_FALSE(heard.status.ok());
  EXPECT_GT(pipeline.requests().size(), 1u);
}

TEST(ClientTest, IsCancelledWhileItWaitsForAnEvent) {
  absl::Notification begun, end;
  FakeAnswers answers = DefaultAnswers();
  answers.generate = [&](const v1::GenerateRequest&, const WriteEvent& write) {
    write(TextEvent(0, "a", {1}));
    begun.Notify();
    end.WaitForNotification();
    return absl::OkStatus();
  };
  FakePipeline pipeline(answers);
  Cancellation cancellation;
  const auto client = ClientOf(pipeline.endpoint());
  std::thread canceller([&] {
    begun.WaitForNotification();
    cancellation.Cancel();
  });
  const Heard heard = Hear(client->Generate(Asking(), {.cancellation = &cancellation}));
  canceller.join();
  end.Notify();
  EXPECT_EQ(heard.status.code(), absl::StatusCode::kCancelled);
}

// Such as by an orchestrator that waits for its stages, and then ends without having had them.
TEST(ClientTest, TriesAgainWhereACallIsLostThatWasKeptForLongerThanItLooksForAnEndpoint) {
  std::atomic<int> num_calls = 0;
  StopSignal never;
  FakeAnswers answers = DefaultAnswers();
  answers.generate = [&](const v1::GenerateRequest& request, const WriteEvent& write) {
    if (num_calls++ == 0) {
      never.WaitFor(absl::Milliseconds(150));
      return absl::UnavailableError("this orchestrator ends");
    }
    return Write(request, write, /*before_loss=*/-1);
  };
  FakePipeline pipeline(answers);
  const auto client = ClientOf(pipeline.endpoint(), {.connect_timeout = absl::Milliseconds(100)});
  EXPECT_TRUE(Hear(client->Generate(Asking())).status.ok());
  EXPECT_EQ(num_calls, 2);
}

TEST(ClientTest, IsCancelledWhileItLooksForAnEndpoint) {
  Cancellation cancellation;
  const auto client = ClientOf("127.0.0.1:1", {.connect_timeout = absl::InfiniteDuration()});
  std::thread canceller([&] { cancellation.Cancel(); });
  EXPECT_EQ(client->GetModel({.cancellation = &cancellation}).status().code(),
            absl::StatusCode::kCancelled);
  canceller.join();
}

TEST(ClientTest, UnaryCallsFindTheEndpointThatIsThere) {
  FakePipeline pipeline(DefaultAnswers());
  const auto model = ClientOf("127.0.0.1:1," + pipeline.endpoint())->GetModel();
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->name(), "fake");
}

TEST(ClientTest, NamesHowEndpointsAreWritten) {
  const absl::Status status = Client::Connect("a:1,,b:2").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("HOST:PORT"));
}

// ---- Refusals ----

// google.rpc.Status{code, message, details: [Any{type_url, RetryInfo{retry_delay}}]}, by hand.
std::string Field(int number, const std::string& bytes) {
  return absl::StrCat(std::string(1, static_cast<char>(number << 3 | 2)),
                      std::string(1, static_cast<char>(bytes.size())), bytes);
}

grpc::Status FullFor(int nanoseconds_of_two_bytes) {
  const std::string delay = std::string("\x10") +
                            static_cast<char>((nanoseconds_of_two_bytes & 0x7f) | 0x80) +
                            static_cast<char>(nanoseconds_of_two_bytes >> 7);
  const std::string any =
      Field(1, "type.googleapis.com/google.rpc.RetryInfo") + Field(2, Field(1, delay));
  return grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "full", Field(3, any));
}

TEST(RetryDelayTest, IsReadFromTheDetails) {
  EXPECT_EQ(client::RetryDelay(FullFor(1000)), absl::Nanoseconds(1000));
  EXPECT_EQ(client::RetryDelay(grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "full")),
            std::nullopt);
  EXPECT_EQ(client::RetryDelay(grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "", "\x1a\xff")),
            std::nullopt);
}

// Full for the first two calls.
class FullServer final : public v1::GenerationService::Service {
 public:
  grpc::Status GetModel(grpc::ServerContext*, const v1::GetModelRequest*,
                        v1::GetModelResponse* response) override {
    response->set_name("roomy");
    return ++num_calls <= 2 ? FullFor(1000) : grpc::Status::OK;
  }
  std::atomic<int> num_calls = 0;
};

TEST(ClientTest, ComesBackWhenTheServerSays) {
  FullServer service;
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&service);
  const auto server = builder.BuildAndStart();
  const auto model = ClientOf(absl::StrCat("127.0.0.1:", port))->GetModel();
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->name(), "roomy");
  EXPECT_EQ(service.num_calls, 3);
}

TEST(ClientTest, ARefusalWithoutATimeIsTheAnswer) {
  FakeAnswers answers = DefaultAnswers();
  answers.score = [](const v1::ScoreRequest&) { return absl::ResourceExhaustedError("full"); };
  FakePipeline pipeline(answers);
  EXPECT_EQ(ClientOf(pipeline.endpoint())->Score({}).status(),
            absl::ResourceExhaustedError("full"));
}

}  // namespace
}  // namespace sluice::testing
