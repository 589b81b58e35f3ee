// Streams between processes, over in-process servers: the plain ends and the stage-to-stage stream.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "kernels/reference/reference_backend.h"
#include "services/common/status.h"
#include "services/messages/wiring_message.h"
#include "services/rows/tensor.h"
#include "services/rpc/server.h"
#include "services/rpc/transport.h"
#include "services/stage/activations.h"
#include "services/stage/row_intake.h"
#include "services/streams/client_stream.h"
#include "services/streams/server_stream.h"
#include "sluice/v1/stage.grpc.pb.h"
#include "tests/kernels/testing/async_backend.h"
#include "tests/kernels/testing/test_wiring.h"
#include "tests/testing/receiver_service.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ServerEnd = ServerStream<v1::PushRequest, v1::PushResponse>;
using ClientEnd = ClientStream<v1::PushRequest, v1::PushResponse>;

SteadyTime SoonEnough() { return SteadyTime::Now() + absl::Minutes(1); }

// An in-process server of `service`.
class Served {
 public:
  explicit Served(grpc::Service* service)
      : server_(*Server::Start({.address = "inproc:it", .services = {service}})) {}
  std::shared_ptr<grpc::Channel> channel() {
    return server_->grpc_server()->InProcessChannel(grpc::ChannelArguments());
  }

 private:
  std::unique_ptr<Server> server_;
};

// Serves Push with whatever handler a test gives.
class PushService final : public v1::StageService::CallbackService {
 public:
  explicit PushService(ServerEnd::Handler handler) : handler_(std::move(handler)) {}
  grpc::ServerBidiReactor<v1::PushRequest, v1::PushResponse>* Push(
      grpc::CallbackServerContext*) override {
    return ServerEnd::Start(handler_);
  }

 private:
  const ServerEnd::Handler handler_;
};

// A client's stream and what it hears.
class Client {
 public:
  explicit Client(const std::shared_ptr<grpc::Channel>& channel)
      : stub_(v1::StageService::NewStub(channel)) {
    stream = ClientEnd::Start([this](grpc::ClientContext* context,
                                     ClientEnd* end) { stub_->async()->Push(context, end); },
                              {.on_response =
                                   [this](const v1::PushResponse& response) {
                                     absl::MutexLock lock(&mutex_);
                                     epochs_.push_back(response.opened().epoch());
                                   },
                               .on_done =
                                   [this](absl::Status status) {
                                     status_ = std::move(status);
                                     done_.Notify();
                                   }});
  }
  ~Client() { done_.WaitForNotification(); }

  void Send(uint64_t epoch) {
    v1::PushRequest request;
    request.mutable_open()->set_epoch(epoch);
    stream->Send(std::move(request));
  }
  absl::Status Wait() {
    done_.WaitForNotification();
    return status_;
  }
  std::vector<uint64_t> epochs() {
    absl::MutexLock lock(&mutex_);
    return epochs_;
  }
  bool WaitForEpochs(size_t count) {
    std::pair<Client*, size_t> asked = {this, count};
    absl::MutexLock lock(&mutex_);
    return mutex_.AwaitWithTimeout(
        absl::Condition(
            +[](std::pair<Client*, size_t>* asked) ABSL_NO_THREAD_SAFETY_ANALYSIS {
              return asked->first->epochs_.size() >= asked->second;
            },
            &asked),
        absl::Minutes(1));
  }

  std::shared_ptr<ClientEnd> stream;

 private:
  const std::unique_ptr<v1::StageService::Stub> stub_;
  absl::Mutex mutex_;
  std::vector<uint64_t> epochs_ ABSL_GUARDED_BY(mutex_);
  absl::Status status_;
  absl::Notification done_;
};

v1::PushResponse Response(uint64_t epoch) {
  v1::PushResponse response;
  response.mutable_opened()->set_epoch(epoch);
  return response;
}

TEST(Streams, CarryManyMessagesBothWaysFromSeveralThreads) {
  PushService service(
      {.on_request =
           [](ServerEnd& stream, const v1::PushRequest& request) {
             stream.Send(Response(request.open().epoch()));
           },
       .on_requests_end = [](ServerEnd& stream) { stream.Close(absl::OkStatus()); }});
  Served served(&service);
  Client client(served.channel());
  constexpr int kThreads = 4, kMessages = 500;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&client, thread] {
      for (int i = 0; i < kMessages; ++i) client.Send(thread * 1000 + i);
    });
  }
  for (std::thread& thread : threads) thread.join();
  client.stream->HalfClose();
  EXPECT_EQ(client.Wait(), absl::OkStatus());
  const std::vector<uint64_t> epochs = client.epochs();
  ASSERT_EQ(epochs.size(), size_t{kThreads * kMessages});
  std::vector<uint64_t> next(kThreads, 0);  // each thread's messages keep their order
  for (const uint64_t epoch : epochs) EXPECT_EQ(epoch % 1000, next[epoch / 1000]++);
}

TEST(Streams, EndWithTheirStatusAfterWhatWasSent) {
  PushService service({.on_request =
                           [](ServerEnd& stream, const v1::PushRequest&) {
                             for (int i = 0; i < 200; ++i) stream.Send(Response(i));
                             stream.Close(absl::DataLossError("the first reason"));
                             stream.Close(absl::InternalError("a later one"));
                             stream.Send(Response(999));
                           },
                       .on_requests_end = [](ServerEnd&) {}});
  Served served(&service);
  Client client(served.channel());
  client.Send(1);
  // A status other than OK may overtake responses that the client has not read; those read come in
  // order and none from after the end.
  EXPECT_EQ(client.Wait(), absl::DataLossError("the first reason"));
  const std::vector<uint64_t> epochs = client.epochs();
  for (size_t i = 0; i < epochs.size(); ++i) EXPECT_EQ(epochs[i], i);
  client.Send(2);  // does nothing
  client.stream->HalfClose();
  client.stream->Cancel();
}

TEST(Streams, TellTheServerWhenTheClientCancels) {
  absl::Notification ended;
  std::shared_ptr<ServerEnd> kept;
  PushService service({.on_request =
                           [&](ServerEnd& stream, const v1::PushRequest&) {
                             kept = stream.shared_from_this();
                             stream.Send(Response(1));
                           },
                       .on_requests_end = [&](ServerEnd&) { ended.Notify(); }});
  {
    Served served(&service);
    Client client(served.channel());
    client.Send(1);
    ASSERT_TRUE(client.WaitForEpochs(1));
    client.stream->Cancel();
    EXPECT_EQ(client.Wait().code(), absl::StatusCode::kCancelled);
    ASSERT_TRUE(ended.WaitForNotificationWithTimeout(absl::Minutes(1)));
  }
  kept->Send(Response(2));  // of a stream that is over: nothing
  kept->Close(absl::OkStatus());
}

// ---- Activations ----

v1::Tensor Row(int64_t value) {
  v1::Tensor tensor;
  tensor.add_shape(value);
  return tensor;
}

v1::PushStep StepOf(uint64_t id) {
  v1::PushStep step;
  step.set_step_id(id);
  *step.mutable_hidden() = Row(static_cast<int64_t>(id) * 10);
  return step;
}

using Inbox = ActivationsReceiver::Inbox;
using testing::TestWiring;

// Served in this process, or over a unix socket, where rows go by a lane.
class Activations : public ::testing::TestWithParam<bool> {
 protected:
  Activations() : folder_(::testing::TempDir() + "/lane-XXXXXX") {
    const std::string address =
        GetParam() ? absl::StrCat("unix:", mkdtemp(folder_.data()), "/it") : "inproc:it";
    server_ = *Server::Start({.address = address, .services = {&service_}});
    if (!GetParam()) dialer_.RegisterInProcess("it", server_->grpc_server());
    channel_ = *dialer_.Dial(address, Role::kShard);
  }
  ~Activations() override {
    server_.reset();
    std::filesystem::remove_all(folder_);
  }

  ActivationsReceiver receiver_;
  testing::ReceiverService service_{receiver_};
  std::string folder_;
  std::unique_ptr<Server> server_;
  Dialer dialer_;
  std::shared_ptr<grpc::Channel> channel_;
};

INSTANTIATE_TEST_SUITE_P(, Activations, ::testing::Bool(), [](const auto& info) {
  return info.param ? "OverAUnixSocket" : "InProcess";
});

TEST_P(Activations, CarryRowsInOrder) {
  const auto inbox = std::make_shared<Inbox>();
  receiver_.Open(TestWiring(3), inbox);
  ActivationsSender sender(channel_, TestWiring(3), [](const absl::Status&) {});
  ASSERT_EQ(sender.WaitUntilOpen(SoonEnough()), absl::OkStatus());
  std::thread sending([&] {
    for (uint64_t step = 1; step <= 100; ++step) {
      v1::PushStep sent = StepOf(step);
      sent.add_computed_ns(step);
      sent.add_computed_ns(5);
      if (step % 10 == 0) {  // more than a lane takes
        sent.mutable_hidden()->set_data(std::string(5 << 20, 'x'));
      }
      sender.Send(std::move(sent));
    }
  });
  for (uint64_t step = 1; step <= 100; ++step) {
    const auto request = inbox->Next();
    ASSERT_TRUE(request.ok()) << request.status();
    const v1::PushStep& rows = request->step();
    ASSERT_EQ(rows.step_id(), step);
    EXPECT_EQ(rows.hidden().shape(0), static_cast<int64_t>(step) * 10);
    EXPECT_THAT(rows.computed_ns(), ElementsAre(step, 5));
  }
  sending.join();
}

TEST_P(Activations, AreRefusedForAnEpochThatIsNotOpen) {
  for (const uint64_t opened : {0, 4, 2}) {
    if (opened != 0) receiver_.Open(TestWiring(opened), std::make_shared<Inbox>());
    absl::Status lost;
    absl::Notification told;
    ActivationsSender sender(channel_, TestWiring(3), [&](const absl::Status& status) {
      lost = status;
      told.Notify();
    });
    EXPECT_EQ(sender.WaitUntilOpen(SoonEnough()).code(), absl::StatusCode::kAborted);
    told.WaitForNotification();
    EXPECT_EQ(lost.code(), absl::StatusCode::kAborted);
    EXPECT_THAT(std::string(lost.message()), HasSubstr("epoch 3"));
  }
}

TEST_P(Activations, HaveOneStreamAnEpoch) {
  receiver_.Open(TestWiring(3), std::make_shared<Inbox>());
  ActivationsSender first(channel_, TestWiring(3), [](const absl::Status&) {});
  ASSERT_TRUE(first.WaitUntilOpen(SoonEnough()).ok());
  ActivationsSender second(channel_, TestWiring(3), [](const absl::Status&) {});
  EXPECT_EQ(second.WaitUntilOpen(SoonEnough()).code(), absl::StatusCode::kAborted);
}

TEST_P(Activations, OfAnOldEpochEndWithTheNewOne) {
  receiver_.Open(TestWiring(3), std::make_shared<Inbox>());
  absl::Notification lost;
  ActivationsSender old(channel_, TestWiring(3), [&](const absl::Status& status) {
    EXPECT_EQ(status, absl::AbortedError("replaced by epoch 4"));
    lost.Notify();
  });
  ASSERT_TRUE(old.WaitUntilOpen(SoonEnough()).ok());
  receiver_.Close(2, absl::InternalError("not the current epoch's"));
  EXPECT_FALSE(lost.HasBeenNotified());
  receiver_.Open(TestWiring(4), std::make_shared<Inbox>());
  ASSERT_TRUE(lost.WaitForNotificationWithTimeout(absl::Minutes(1)));
  ActivationsSender current(channel_, TestWiring(4), [](const absl::Status&) {});
  EXPECT_EQ(current.WaitUntilOpen(SoonEnough()), absl::OkStatus());
}

// Sends what a test gives on a stream of its own; what it ended with.
absl::Status Push(const std::shared_ptr<grpc::Channel>& channel,
                  const std::vector<v1::PushRequest>& requests) {
  const auto stub = v1::StageService::NewStub(channel);
  grpc::ClientContext context;
  const auto stream = stub->Push(&context);
  for (const v1::PushRequest& request : requests) stream->Write(request);
  return FromGrpc(stream->Finish());
}

v1::PushRequest StepRequest(uint64_t epoch, uint64_t step) {
  v1::PushRequest request;
  *request.mutable_step() = StepOf(step);
  request.mutable_step()->set_epoch(epoch);
  return request;
}

v1::PushRequest OpenRequest(const WiringIdentity& wiring) {
  v1::PushRequest request;
  SetWiring(wiring, *request.mutable_open());
  return request;
}

// A foreign row would be taken for the right one of its step, and change a text without an error.
TEST_P(Activations, AreNotTakenFromAStreamThatWasNotAccepted) {
  const auto inbox = std::make_shared<Inbox>();
  const auto expect_foreign_rows_refused = [&] {
    const absl::Status without_open = Push(channel_, {StepRequest(3, 1)});
    EXPECT_EQ(without_open.code(), absl::StatusCode::kFailedPrecondition) << without_open;
    EXPECT_THAT(std::string(without_open.message()), HasSubstr("before an accepted Open"));
    const std::pair<WiringIdentity, std::string> others[] = {
        {TestWiring(3, 2), "the wiring nonces differ"},
        {TestWiring(2), "it is wired into epoch 2, expected epoch 3"},
        {*WiringIdentity::Make(TestWiring().nonce, 3, "other"), "its model fingerprint is other"}};
    for (const auto& [other, difference] : others) {
      const absl::Status refused = Push(channel_, {OpenRequest(other), StepRequest(3, 1)});
      EXPECT_EQ(refused.code(), absl::StatusCode::kAborted) << refused;
      EXPECT_THAT(std::string(refused.message()), HasSubstr(difference));
    }
    v1::PushRequest unsigned_open = OpenRequest(TestWiring(3));
    unsigned_open.mutable_open()->clear_wiring_nonce();
    const absl::Status refused = Push(channel_, {unsigned_open, StepRequest(3, 1)});
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << refused;
  };
  receiver_.Open(TestWiring(3), inbox);
  expect_foreign_rows_refused();
  ActivationsSender sender(channel_, TestWiring(3), [](const absl::Status&) {});
  ASSERT_EQ(sender.WaitUntilOpen(SoonEnough()), absl::OkStatus());
  expect_foreign_rows_refused();
  // Even with all that is secret, the stream that is accepted stays the only one.
  EXPECT_EQ(Push(channel_, {OpenRequest(TestWiring(3)), StepRequest(3, 1)}).code(),
            absl::StatusCode::kAborted);
  sender.Send(StepOf(2));
  const auto request = inbox->Next();
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->step().step_id(), 2u) << "nothing foreign came before it";
}

TEST(ActivationsSender, DoesNotBelieveAReceiverOfAnotherWiring) {
  PushService service(
      {.on_request =
           [](ServerEnd& stream, const v1::PushRequest&) {
             v1::PushResponse response;
             SetWiring(TestWiring(3, 2), *response.mutable_opened());
             stream.Send(std::move(response));
           },
       .on_requests_end = [](ServerEnd& stream) { stream.Close(absl::OkStatus()); }});
  Served served(&service);
  ActivationsSender sender(served.channel(), TestWiring(3), [](const absl::Status&) {});
  const absl::Status opened = sender.WaitUntilOpen(SoonEnough());
  EXPECT_EQ(opened.code(), absl::StatusCode::kAborted) << opened;
  EXPECT_THAT(std::string(opened.message()), HasSubstr("the wiring nonces differ"));
}

// The whole way of a ring: asked for, offered, opened, used, and taken.
TEST_P(Activations, GoByARingOfTheSendersMemory) {
  const auto sending = MakeAsyncBackend(MakeReferenceBackend());
  const auto receiving = MakeAsyncBackend(MakeReferenceBackend());
  constexpr int64_t kHidden = 64;
  RowRing ring(*sending, kHidden, /*rows=*/16);
  RowIntake intake(receiver_, TestWiring(3), *receiving);
  intake.Open();
  ActivationsSender sender(
      channel_, TestWiring(3), [](const absl::Status&) {}, &ring);
  ASSERT_EQ(sender.WaitUntilOpen(SoonEnough()), absl::OkStatus());
  sender.OfferRing();
  StepRows out(*sending, kHidden), in(*receiving, kHidden);
  int num_in_ring = 0;
  for (uint64_t step = 1; num_in_ring < 40; ++step) {
    ASSERT_LT(step, 100000u) << "the ring is never used";
    v1::Tensor rows = NewTensor(DType::kF32, {static_cast<int64_t>(1 + step % 7), kHidden});
    std::fill(rows.mutable_data()->begin(), rows.mutable_data()->end(), static_cast<char>(step));
    ASSERT_EQ(out.Load(rows), absl::OkStatus());
    v1::PushStep sent;
    sent.set_step_id(step);
    ASSERT_EQ(sender.Store(out, std::nullopt, sent), absl::OkStatus());
    sender.Send(std::move(sent));
    const absl::StatusOr<v1::PushStep> received = intake.RowsOf(step);
    ASSERT_TRUE(received.ok()) << received.status();
    num_in_ring += received->has_in_ring() ? 1 : 0;
    ASSERT_EQ(intake.Load(*received, in), absl::OkStatus());
    EXPECT_EQ(in.Store()->data(), rows.data()) << "step " << step;
    intake.Done();
  }
}

TEST_P(Activations, RefuseARingThatWasNotAskedFor) {
  receiver_.Open(TestWiring(3), std::make_shared<Inbox>());
  const auto stub = v1::StageService::NewStub(channel_);
  grpc::ClientContext context;
  const auto stream = stub->Push(&context);
  v1::PushRequest request;
  request.mutable_ring()->set_capacity_bytes(1024);
  stream->Write(request);
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::FAILED_PRECONDITION);
}

// A ring that is not there can't be written to, whatever the receiver says.
TEST(ActivationsSender, DoesNotBelieveThatARingWasTakenThatItDidNotOffer) {
  PushService service(
      {.on_request =
           [](ServerEnd& stream, const v1::PushRequest&) {
             v1::PushResponse response;
             response.mutable_ring_taken()->set_position(0);
             stream.Send(std::move(response));
           },
       .on_requests_end = [](ServerEnd& stream) { stream.Close(absl::OkStatus()); }});
  Served served(&service);
  const auto backend = MakeAsyncBackend(MakeReferenceBackend());
  constexpr int64_t kHidden = 64;
  RowRing ring(*backend, kHidden, /*rows=*/16);
  absl::Status lost;
  absl::Notification told;
  ActivationsSender sender(
      served.channel(), TestWiring(3),
      [&](const absl::Status& status) {
        lost = status;
        told.Notify();
      },
      &ring);
  ASSERT_TRUE(told.WaitForNotificationWithTimeout(absl::Minutes(1)));
  EXPECT_EQ(lost.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(lost.message()), HasSubstr("not offered"));
  StepRows rows(*backend, kHidden);
  ASSERT_EQ(rows.Load(NewTensor(DType::kF32, {1, kHidden})), absl::OkStatus());
  v1::PushStep step;
  ASSERT_EQ(sender.Store(rows, std::nullopt, step), absl::OkStatus());
  EXPECT_FALSE(step.has_in_ring());
}

TEST(ActivationsReceiver, RefusesARequestThatSaysNothing) {
  ActivationsReceiver receiver;
  testing::ReceiverService service(receiver);
  Served served(&service);
  Client client(served.channel());
  client.stream->Send({});
  EXPECT_EQ(client.Wait().code(), absl::StatusCode::kInvalidArgument);
}

// ---- Ends ----

// gRPC's threads end with the last channel, and one of them can't wait for itself to end.
TEST(Streams, MayBeTheLastToHoldTheirChannel) {
  for (int i = 0; i < 3; ++i) {
    absl::Notification dropped, done;
    auto stub = v1::StageService::NewStub(*Dialer().Dial("unix:/nowhere/at/all", Role::kShard));
    ClientEnd::Start([&](auto* context, auto* end) { stub->async()->Push(context, end); },
                     {.on_response = [](const v1::PushResponse&) {},
                      .on_done =
                          [&](const absl::Status&) {
                            dropped.WaitForNotification();
                            done.Notify();
                          }});
    stub.reset();
    dropped.Notify();
    done.WaitForNotification();
    // The thread that called on_done goes on to look for work.
    absl::SleepFor(absl::Milliseconds(300));
  }
}

}  // namespace
}  // namespace sluice
