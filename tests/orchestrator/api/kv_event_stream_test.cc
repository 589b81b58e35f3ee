// Streams of KvEvents over an in-process server, fed by a publisher as the engine feeds it.
#include "orchestrator/api/kv_event_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "services/common/status.h"
#include "services/messages/raw_message.h"
#include "services/rpc/server.h"
#include "sluice/v1/kv_events.grpc.pb.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Subscribes every caller.
class EventService final : public v1::KvEventService::Service {
 public:
  EventService() {
    MarkMethodStreamed(0, nullptr);
    MarkMethodRawCallback(
        0, new grpc::internal::CallbackBidiHandler<grpc::ByteBuffer, grpc::ByteBuffer>(
               [this](grpc::CallbackServerContext*) { return Begin(); }));
  }

  // What the engine's loop does, on the test's thread.
  void OnLoop(const std::function<void(KvEventPublisher&)>& work) {
    absl::MutexLock lock(&mutex_);
    work(publisher_);
  }

 private:
  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Begin() {
    const auto writer = KvEventStream::Writer::Start();
    writer->ReadRequest([this, writer](const absl::StatusOr<grpc::ByteBuffer>& bytes) {
      const auto request = ParseMessage<v1::KvEventsRequest>(*bytes);
      OnLoop([&](KvEventPublisher& publisher) {
        publisher.Subscribe(
            std::make_shared<KvEventStream>(writer, *request, /*most_unread_bytes=*/1 << 16));
      });
    });
    return writer.get();
  }

  absl::Mutex mutex_;
  KvEventPublisher publisher_ ABSL_GUARDED_BY(mutex_);
};

class KvEventStreamTest : public ::testing::Test {
 protected:
  KvEventStreamTest() {
    service_.OnLoop([](KvEventPublisher& publisher) {
      publisher.OnNewCache(/*model=*/7, /*block_size=*/16, /*num_blocks=*/100);
      publisher.OnStored(1, 0, 0);
      publisher.OnStored(2, 1, 1);
    });
    server_ = *Server::Start({.address = "inproc:events", .services = {&service_}});
    stub_ = v1::KvEventService::NewStub(
        server_->grpc_server()->InProcessChannel(grpc::ChannelArguments()));
  }
  std::unique_ptr<grpc::ClientReader<v1::KvEventsResponse>> Open(bool blocks, bool prompts) {
    v1::KvEventsRequest request;
    request.set_blocks(blocks);
    request.set_prompts(prompts);
    context_ = std::make_unique<grpc::ClientContext>();
    return stub_->KvEvents(context_.get(), request);
  }
  void Publish() {
    service_.OnLoop([this](KvEventPublisher& publisher) {
      publisher.Advance(SteadyTime::FromStart(absl::Seconds(++seconds_)), load_);
    });
  }

  EventService service_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<v1::KvEventService::Stub> stub_;
  std::unique_ptr<grpc::ClientContext> context_;
  EngineLoad load_;
  int seconds_ = 0;
};

TEST_F(KvEventStreamTest, NumbersTheSnapshotAndWhatFollows) {
  const auto stream = Open(/*blocks=*/true, /*prompts=*/false);
  v1::KvEventsResponse message;
  ASSERT_TRUE(stream->Read(&message));
  EXPECT_EQ(message.sequence_number(), 1u);
  EXPECT_TRUE(message.snapshot_end());
  EXPECT_EQ(message.info().model_key(), 7u);
  EXPECT_EQ(message.info().block_size(), 16);
  EXPECT_THAT(message.stored().keys(), ElementsAre(1, 2));
  EXPECT_THAT(message.stored().parents(), ElementsAre(0, 1));
  EXPECT_THAT(message.stored().indexes(), ElementsAre(0, 1));
  service_.OnLoop([](KvEventPublisher& publisher) {
    publisher.OnStored(3, 2, 2);
    publisher.OnRemoved(1);
    publisher.OnStep(absl::Milliseconds(5), 64);
  });
  load_ = {.serving = true, .num_running_requests = 3, .num_available_blocks = 9};
  Publish();
  ASSERT_TRUE(stream->Read(&message));
  EXPECT_EQ(message.sequence_number(), 2u);
  EXPECT_FALSE(message.snapshot_end());
  EXPECT_THAT(message.stored().keys(), ElementsAre(3));
  EXPECT_THAT(message.removed(), ElementsAre(1));
  EXPECT_TRUE(message.load().serving());
  EXPECT_EQ(message.load().num_running_requests(), 3);
  EXPECT_EQ(message.load().num_available_blocks(), 9);
  EXPECT_EQ(message.load().step_time_us(), 5000);
  EXPECT_EQ(message.load().step_positions(), 64);
  context_->TryCancel();
  while (stream->Read(&message)) {
  }
  stream->Finish();
}

TEST_F(KvEventStreamTest, SendsWhatWasAskedForAlone) {
  const auto stream = Open(/*blocks=*/false, /*prompts=*/true);
  v1::KvEventsResponse message;
  ASSERT_TRUE(stream->Read(&message));
  EXPECT_FALSE(message.has_stored());
  service_.OnLoop([](KvEventPublisher& publisher) { publisher.OnStored(3, 2, 2); });
  Publish();  // of which nothing is sent
  service_.OnLoop([](KvEventPublisher& publisher) {
    const PromptKeys keys = {.keys = {50}, .num_bytes = 256};
    publisher.Expect(/*domain=*/0, std::vector<TokenId>(16, 1), keys, /*scope=*/4);
    publisher.OnStored(BlockKey(0, std::vector<TokenId>(16, 1)), 0, 0);
  });
  Publish();
  ASSERT_TRUE(stream->Read(&message));
  EXPECT_EQ(message.sequence_number(), 2u);
  EXPECT_THAT(message.stored_prompts().keys(), ElementsAre(KeyInScope(50, 4)));
  EXPECT_THAT(message.stored_prompts().num_positions(), ElementsAre(16));
  context_->TryCancel();
  while (stream->Read(&message)) {
  }
  stream->Finish();
}

TEST_F(KvEventStreamTest, TellsACallerWhoDoesNotReadToCallAgain) {
  const auto stream = Open(/*blocks=*/true, /*prompts=*/false);
  v1::KvEventsResponse message;
  ASSERT_TRUE(stream->Read(&message));
  // Far more than the connection's window holds; nothing here waits for the caller.
  PrefixKey key = 100;
  size_t num_subscribers = 1;
  for (int batch = 0; batch < 1000 && num_subscribers > 0; ++batch) {
    service_.OnLoop([&](KvEventPublisher& publisher) {
      for (int i = 0; i < 4000; ++i, ++key) publisher.OnStored(key, 0, 0);
    });
    Publish();
    service_.OnLoop(
        [&](KvEventPublisher& publisher) { num_subscribers = publisher.num_subscribers(); });
  }
  EXPECT_EQ(num_subscribers, 0u);
  uint64_t last = 1;
  while (stream->Read(&message)) EXPECT_EQ(message.sequence_number(), ++last);
  const grpc::Status status = stream->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::ABORTED);
  EXPECT_THAT(status.error_message(), HasSubstr("call again"));
  const auto again = Open(/*blocks=*/true, /*prompts=*/false);
  size_t num_held = 0;
  do {
    ASSERT_TRUE(again->Read(&message));
    num_held += static_cast<size_t>(message.stored().keys_size());
  } while (!message.snapshot_end());
  EXPECT_EQ(num_held, 2 + key - 100);
  context_->TryCancel();
  while (again->Read(&message)) {
  }
  again->Finish();
}

}  // namespace
}  // namespace sluice
