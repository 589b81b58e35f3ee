#include "orchestrator/pipeline/grpc_stage_network.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "services/lane/lane_inbox.h"
#include "services/lane/lane_outbox.h"
#include "services/messages/wiring_message.h"
#include "services/rpc/server.h"
#include "services/stage/lane_offer.h"
#include "services/stage/run_stream.h"
#include "sluice/v1/stage.grpc.pb.h"
#include "tests/kernels/testing/test_wiring.h"

namespace sluice {
namespace {

// Answers every plan with the plan's step, as a sampler does: by lanes where there are any.
class EchoSession final : public StageSession {
 public:
  using Stream = ServerStream<v1::StageRunRequest, v1::StageRunResponse>;

  EchoSession(const v1::StageOpen& open, std::shared_ptr<Stream> stream, absl::Status end)
      : stream_(std::move(stream)), end_(std::move(end)) {
    const WiringIdentity wiring = *WiringOf(open);
    has_lane_ = open.has_lane() && answers_.Open(open.lane(), wiring).ok();
    v1::StageRunResponse response;
    OfferLane(*stream_, plans_, wiring, *response.mutable_opened());
    stream_->Send(std::move(response));
    thread_ = std::thread([this] { Echo(); });
  }
  ~EchoSession() override { thread_.join(); }

  void Run() override {}
  void AddPlan(v1::StageRunRequest request) override { plans_.Add(std::move(request)); }
  void Close(const absl::Status& reason) override { plans_.Close(reason); }
  bool has_lane() const { return has_lane_; }

 private:
  // The plan of step 0 ends it.
  void Echo() {
    for (auto plan = plans_.Next(); plan.ok(); plan = plans_.Next()) {
      if (plan->execute().step_id() == 0) return stream_->Close(end_);
      v1::StageRunResponse response;
      response.mutable_executed()->set_step_id(plan->execute().step_id());
      answers_.Send(std::move(response),
                    [this](v1::StageRunResponse&& unsent) { stream_->Send(std::move(unsent)); });
    }
  }

  const std::shared_ptr<Stream> stream_;
  const absl::Status end_;
  LaneInbox<v1::StageRunRequest> plans_;
  LaneOutbox<v1::StageRunResponse> answers_;
  bool has_lane_ = false;
  std::thread thread_;
};

class EchoService final : public v1::StageService::CallbackService {
 public:
  grpc::ServerBidiReactor<v1::StageRunRequest, v1::StageRunResponse>* Run(
      grpc::CallbackServerContext* context) override {
    return ServeRunStream(
        *context,
        [this](const v1::StageOpen& open,
               EchoSession::Stream& stream) -> absl::StatusOr<std::shared_ptr<StageSession>> {
          auto session = std::make_shared<EchoSession>(open, stream.shared_from_this(), end);
          had_lane = session->has_lane();
          return session;
        });
  }
  absl::Status end = absl::DataLossError("step 0");
  std::atomic<bool> had_lane = false;
};

v1::StageRunRequest PlanOf(uint64_t step) {
  v1::StageRunRequest request;
  request.mutable_execute()->set_step_id(step);
  return request;
}

class Idle final : public EventLoop::Task {
  SteadyTime Advance(SteadyTime) override { return SteadyTime::InfiniteFuture(); }
};

// Sends steps 1 to 1,000 once the stream is open, then 0. What the stream ended with.
absl::Status ExpectAnswersInOrder(const std::string& address, EchoService& service,
                                  Dialer& dialer) {
  EventLoop loop;
  Idle idle;
  const Post post = loop.post();
  GrpcStageNetwork network(&dialer, post, "me");
  std::unique_ptr<StageNetwork::Stream> stream;  // of the loop's thread, as what follows
  uint64_t answered = 0;
  absl::Status end;
  absl::Notification done;
  post([&] {
    stream = *network.Run(Role::kSampler, address,
                          {.on_response =
                               [&](const v1::StageRunResponse& response) {
                                 if (response.has_executed()) {
                                   EXPECT_EQ(response.executed().step_id(), ++answered);
                                   if (answered == 1000) stream->Send(PlanOf(0));
                                   return;
                                 }
                                 for (uint64_t step = 1; step <= 1000; ++step)
                                   stream->Send(PlanOf(step));
                               },
                           .on_done =
                               [&](const absl::Status& status) {
                                 end = status;
                                 done.Notify();
                               }});
    v1::StageRunRequest open;
    SetWiring(testing::TestWiring(), *open.mutable_open());
    stream->Send(std::move(open));
  });
  loop.Start(&idle);
  EXPECT_TRUE(done.WaitForNotificationWithTimeout(absl::Minutes(1)));
  EXPECT_EQ(service.had_lane, address.rfind("unix:", 0) == 0);
  absl::Notification gone;
  post([&] {
    stream.reset();
    gone.Notify();
  });
  gone.WaitForNotification();
  EXPECT_EQ(answered, 1000u);
  return end;
}

// The same over a unix socket.
absl::Status ExpectAnswersInOrderByLanes(EchoService& service) {
  std::string folder = ::testing::TempDir() + "/lane-XXXXXX";
  const std::string address = absl::StrCat("unix:", mkdtemp(folder.data()), "/it");
  absl::Status end;
  {
    const auto server = *Server::Start({.address = address, .services = {&service}});
    Dialer dialer;
    end = ExpectAnswersInOrder(address, service, dialer);
  }
  std::filesystem::remove_all(folder);
  return end;
}

TEST(GrpcStageNetwork, ReachesASamplerInThisProcessByTheStream) {
  EchoService service;
  const auto server = *Server::Start({.address = "inproc:it", .services = {&service}});
  Dialer dialer;
  dialer.RegisterInProcess("it", server->grpc_server());
  EXPECT_EQ(ExpectAnswersInOrder("inproc:it", service, dialer), absl::DataLossError("step 0"));
}

TEST(GrpcStageNetwork, ReachesASamplerOverAUnixSocketByLanes) {
  EchoService service;
  EXPECT_EQ(ExpectAnswersInOrderByLanes(service), absl::DataLossError("step 0"));
}

TEST(GrpcStageNetwork, SaysWhereASamplerWithALaneEndedItsStreamWithoutAnError) {
  EchoService service;
  service.end = absl::OkStatus();
  EXPECT_EQ(ExpectAnswersInOrderByLanes(service), absl::UnavailableError("it ended its stream"));
}

}  // namespace
}  // namespace sluice
