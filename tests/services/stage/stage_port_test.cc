// A stage that is nothing but arithmetic behind a StagePort, with a real orchestrator's stream and
// real stages before and after it: what a new kind of stage needs, and that it is all there.
#include "services/stage/stage_port.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "kernels/reference/reference_backend.h"
#include "services/common/status.h"
#include "services/lane/lane_outbox.h"
#include "services/messages/wiring_message.h"
#include "services/rows/tensor.h"
#include "services/rpc/server.h"
#include "services/rpc/transport.h"
#include "services/stage/stage.h"
#include "services/stage/stage_service.h"
#include "sluice/v1/stage.grpc.pb.h"
#include "tests/kernels/testing/async_backend.h"
#include "tests/kernels/testing/test_wiring.h"
#include "tests/testing/receiver_service.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::Gt;
using ::testing::HasSubstr;
using testing::TestWiring;

constexpr int64_t kHidden = 8;

// Doubles its rows, and answers each plan with how many rows it had.
class DoublingSession final : public StageSession {
 public:
  DoublingSession(const v1::StageOpen& open, std::shared_ptr<StagePort::Stream> stream,
                  StagePort::Options options)
      : port_(open, std::move(stream), std::move(options)) {}

  void AddPlan(v1::StageRunRequest request) override { port_.AddPlan(std::move(request)); }
  void Close(const absl::Status& reason) override { port_.Close(reason); }
  void Run() override { port_.Finish(Serve()); }

 private:
  absl::Status Serve() {
    absl::Status status = port_.Open();
    while (status.ok()) {
      const absl::StatusOr<StageStep> step = port_.Next();
      if (!step.ok()) return step.status();
      status = Execute(*step);
    }
    return status;
  }

  absl::Status Execute(const StageStep& step) {
    const SteadyTime began = SteadyTime::Now();
    absl::Status status = port_.Load(step.rows);
    if (!status.ok()) return status;
    absl::StatusOr<v1::Tensor> rows = port_.rows().Store();
    if (!rows.ok()) return rows.status();
    std::vector<float> values(rows->data().size() / sizeof(float));
    std::memcpy(values.data(), rows->data().data(), rows->data().size());
    for (float& value : values) value *= 2;
    std::memcpy(rows->mutable_data()->data(), values.data(), rows->data().size());
    status = port_.rows().Load(*rows);
    if (!status.ok()) return status;
    port_.Done();
    v1::StageRunResponse response;
    response.mutable_times()->set_busy_ns(static_cast<uint64_t>(port_.rows().rows()));
    port_.Answer(std::move(response));
    const std::vector<uint64_t> computed = {step.rows.computed_ns().begin(),
                                            step.rows.computed_ns().end()};
    return port_.Send({.step_id = step.plan.step_id(), .computed_ns = computed, .began = began});
  }

  StagePort port_;
};

// A kind of stage whose sessions double.
class DoublingStage final : public Stage {
 public:
  explicit DoublingStage(Backend& backend) : backend_(backend), ring_(backend, kHidden) {}

  void SetNextStage(std::shared_ptr<grpc::Channel> channel) { next_stage_ = std::move(channel); }

  Role role() const override { return Role::kShard; }
  absl::StatusOr<std::shared_ptr<StageSession>> MakeSession(const StageOpening& opening) override {
    return std::make_shared<DoublingSession>(
        opening.open, opening.stream,
        StagePort::Options{
            .wiring = opening.wiring,
            .memory = {.backend = backend_, .hidden_size = kHidden},
            .peers = {.receiver = &opening.receiver, .next_stage = next_stage_, .ring = &ring_},
            .on_close = [this](const absl::Status& reason) {
              absl::MutexLock lock(&mutex_);
              if (closed_.ok()) closed_ = reason;
            }});
  }
  void Describe(v1::GetStageInfoResponse& info) const override { info.mutable_shard(); }

  // Waits until a session has been closed; the reason.
  absl::Status WaitUntilClosed() {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(
        +[](absl::Status* reason) { return !reason->ok(); }, &closed_));
    return closed_;
  }

 private:
  Backend& backend_;
  RowRing ring_;
  std::shared_ptr<grpc::Channel> next_stage_;
  absl::Mutex mutex_;
  absl::Status closed_ ABSL_GUARDED_BY(mutex_);
};

// The stage, an orchestrator, and the stages around it; over unix sockets (with lanes and rings of
// rows) or in this process.
class StagePortTest : public ::testing::TestWithParam<bool> {
 protected:
  StagePortTest() : folder_(::testing::TempDir() + "/port-XXXXXX") {
    if (GetParam()) mkdtemp(folder_.data());
    after_ = Serve("after", {&after_service_});
    doubling_.SetNextStage(*dialer_.Dial(AddressOf("after"), Role::kShard));
    stage_ = Serve("stage", {&service_});
    channel_ = *dialer_.Dial(AddressOf("stage"), Role::kShard);
    stub_ = v1::StageService::NewStub(channel_);
  }
  ~StagePortTest() override {
    stage_.reset();
    after_.reset();
    if (GetParam()) std::filesystem::remove_all(folder_);
  }

  std::string AddressOf(const std::string& name) const {
    return GetParam() ? absl::StrCat("unix:", folder_, "/", name) : "inproc:" + name;
  }
  std::unique_ptr<Server> Serve(const std::string& name, std::vector<grpc::Service*> services) {
    auto server = *Server::Start({.address = AddressOf(name), .services = std::move(services)});
    if (!GetParam()) dialer_.RegisterInProcess(name, server->grpc_server());
    return server;
  }

  static v1::StageRunRequest OpenOf(const WiringIdentity& wiring, uint32_t timeout_ms) {
    v1::StageRunRequest request;
    SetWiring(wiring, *request.mutable_open());
    request.mutable_open()->set_open_timeout_ms(timeout_ms);
    request.mutable_open()->mutable_shard();
    return request;
  }

  const std::unique_ptr<Backend> backend_ = MakeAsyncBackend(MakeReferenceBackend());
  std::string folder_;
  Dialer dialer_;
  ActivationsReceiver after_receiver_;
  testing::ReceiverService after_service_{after_receiver_};
  std::unique_ptr<Server> after_;
  DoublingStage doubling_{*backend_};
  StageService service_{ServedModel{.fingerprint = std::string(TestWiring(3).fingerprint())},
                        &doubling_};
  std::unique_ptr<Server> stage_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::StageService::Stub> stub_;
};

INSTANTIATE_TEST_SUITE_P(, StagePortTest, ::testing::Bool(), [](const auto& info) {
  return info.param ? "OverUnixSockets" : "InProcess";
});

v1::Tensor RowsOf(int64_t count, float value) {
  v1::Tensor tensor = NewTensor(DType::kF32, {count, kHidden});
  const std::vector<float> values(static_cast<size_t>(count * kHidden), value);
  std::memcpy(tensor.mutable_data()->data(), values.data(), tensor.data().size());
  return tensor;
}

TEST_P(StagePortTest, JoinsPlansAndRowsInTheOrderOfPlansHoweverRowsArrive) {
  constexpr uint64_t kSteps = 200;
  const auto receiving = MakeAsyncBackend(MakeReferenceBackend());
  StepRows rows(*receiving, kHidden);
  RowIntake after(after_receiver_, TestWiring(3), *receiving);
  after.Open();
  grpc::ClientContext context;
  const auto plans = stub_->Run(&context);
  ASSERT_TRUE(plans->Write(OpenOf(TestWiring(3), 60000)));
  v1::StageRunResponse response;
  ASSERT_TRUE(plans->Read(&response));
  ASSERT_TRUE(CheckWiring(response.opened(), TestWiring(3)).ok());
  EXPECT_EQ(response.opened().has_lane(), GetParam());
  ActivationsSender before(channel_, TestWiring(3), [](const absl::Status&) {});
  ASSERT_TRUE(before.WaitUntilOpen(SteadyTime::Now() + absl::Minutes(1)).ok());
  std::thread pushing([&] {
    std::vector<uint64_t> order(kSteps);
    for (uint64_t i = 0; i < kSteps; ++i) order[i] = i + 1;
    std::shuffle(order.begin(), order.end(), std::mt19937(1));
    for (const uint64_t step : order) {
      v1::PushStep sent;
      sent.set_step_id(step);
      sent.add_computed_ns(step);
      *sent.mutable_hidden() = RowsOf(static_cast<int64_t>(1 + step % 5), static_cast<float>(step));
      before.Send(std::move(sent));
    }
  });
  std::thread planning([&] {
    for (uint64_t step = 1; step <= kSteps; ++step) {
      v1::StageRunRequest request;
      request.mutable_execute()->set_step_id(step);
      request.mutable_execute()->mutable_shard();
      if (!plans->Write(request)) break;
    }
  });
  for (uint64_t step = 1; step <= kSteps; ++step) {
    const absl::StatusOr<v1::PushStep> sent = after.RowsOf(step);
    if (!sent.ok()) ADD_FAILURE() << sent.status();
    if (!sent.ok() || !after.Load(*sent, rows).ok()) break;
    EXPECT_EQ(rows.Store()->data(),
              RowsOf(static_cast<int64_t>(1 + step % 5), static_cast<float>(2 * step)).data());
    after.Done();
    EXPECT_THAT(sent->computed_ns(), ElementsAre(step, Gt(0u))) << "its own time is the last";
    EXPECT_TRUE(plans->Read(&response));
    EXPECT_EQ(response.times().busy_ns(), 1 + step % 5) << "step " << step;
  }
  pushing.join();
  planning.join();
  plans->WritesDone();
  EXPECT_EQ(FromGrpc(plans->Finish()), absl::CancelledError("the orchestrator ended the stream"));
}

TEST_P(StagePortTest, EndsAllStreamsWithTheReasonOfOne) {
  RowIntake after(after_receiver_, TestWiring(3), *backend_);
  after.Open();
  grpc::ClientContext context;
  const auto plans = stub_->Run(&context);
  ASSERT_TRUE(plans->Write(OpenOf(TestWiring(3), 60000)));
  v1::StageRunResponse response;
  ASSERT_TRUE(plans->Read(&response));
  absl::Notification lost;
  ActivationsSender before(channel_, TestWiring(3), [&](const absl::Status& status) {
    EXPECT_THAT(std::string(status.message()), HasSubstr("enough"));
    lost.Notify();
  });
  ASSERT_TRUE(before.WaitUntilOpen(SteadyTime::Now() + absl::Minutes(1)).ok());
  after.Close(absl::ResourceExhaustedError("enough"));
  EXPECT_EQ(doubling_.WaitUntilClosed().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(lost.WaitForNotificationWithTimeout(absl::Minutes(1)));
  EXPECT_FALSE(plans->Read(&response));
  EXPECT_EQ(FromGrpc(plans->Finish()), absl::ResourceExhaustedError("next stage: enough"));
}

// Nothing accepts its rows: it waits no longer than it was given.
TEST_P(StagePortTest, OpensWithinTheTimeThatItWasGivenOrNotAtAll) {
  // Takes calls, and never answers.
  class Silent final : public v1::StageService::CallbackService {
   public:
    grpc::ServerBidiReactor<v1::PushRequest, v1::PushResponse>* Push(
        grpc::CallbackServerContext*) override {
      return ServerStream<v1::PushRequest, v1::PushResponse>::Start(
          {.on_request = [](auto&, const v1::PushRequest&) {},
           .on_requests_end = [](auto& stream) { stream.Close(absl::OkStatus()); }});
    }
  } silent;
  const auto server = Serve("silent", {&silent});
  doubling_.SetNextStage(*dialer_.Dial(AddressOf("silent"), Role::kShard));
  grpc::ClientContext context;
  const auto plans = stub_->Run(&context);
  const SteadyTime began = SteadyTime::Now();
  ASSERT_TRUE(plans->Write(OpenOf(TestWiring(3), 50)));
  v1::StageRunResponse response;
  EXPECT_FALSE(plans->Read(&response));
  const absl::Status status = FromGrpc(plans->Finish());
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
  EXPECT_GE(SteadyTime::Now() - began, absl::Milliseconds(50));
  EXPECT_THAT(std::string(status.message()), HasSubstr("next stage"));
}

// A lane is not looked into on its way: what it brings is checked where it is taken.
class StageLanes : public StagePortTest {
 protected:
  // Opens the stage; what the offered lanes take by `use` ends the stream with this.
  absl::Status EndedBy(
      const std::function<void(const v1::LaneOffer& plans, const v1::LaneOffer& rows)>& use) {
    RowIntake after(after_receiver_, TestWiring(3), *backend_);
    after.Open();
    grpc::ClientContext context;
    const auto plans = stub_->Run(&context);
    plans->Write(OpenOf(TestWiring(3), 60000));
    v1::StageRunResponse opened;
    EXPECT_TRUE(plans->Read(&opened));
    const auto activations = v1::StageService::NewStub(channel_);
    grpc::ClientContext push_context;
    const auto push = activations->Push(&push_context);
    v1::PushRequest open;
    SetWiring(TestWiring(3), *open.mutable_open());
    push->Write(open);
    v1::PushResponse accepted;
    EXPECT_TRUE(push->Read(&accepted));
    use(opened.opened().lane(), accepted.opened().lane());
    EXPECT_FALSE(plans->Read(&opened));
    push->WritesDone();
    push->Finish();
    return FromGrpc(plans->Finish());
  }

  template <class Message>
  static void SendByLane(const v1::LaneOffer& offer, Message message) {
    LaneOutbox<Message> lane;
    ASSERT_TRUE(lane.Open(offer, TestWiring(3)).ok());
    lane.Send(std::move(message), [](Message&&) { ADD_FAILURE() << "the lane has room"; });
  }
};

INSTANTIATE_TEST_SUITE_P(, StageLanes, ::testing::Values(true));

TEST_P(StageLanes, BringNoRowsOfAnotherEpoch) {
  const absl::Status status = EndedBy([](const auto& plans, const auto& rows) {
    v1::StageRunRequest plan;
    plan.mutable_execute()->set_step_id(1);
    plan.mutable_execute()->mutable_shard();
    SendByLane(plans, std::move(plan));
    v1::PushRequest request;
    request.mutable_step()->set_step_id(1);
    request.mutable_step()->set_epoch(2);
    SendByLane(rows, std::move(request));
  });
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("epoch 2"));
}

TEST_P(StageLanes, BringNoRequestsWithoutAPlan) {
  const absl::Status status =
      EndedBy([](const auto& plans, const auto&) { SendByLane(plans, v1::StageRunRequest()); });
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
}

TEST_P(StageLanes, BringNoPlansForAnotherKindOfStage) {
  const absl::Status status = EndedBy([](const auto& plans, const auto&) {
    v1::StageRunRequest plan;
    plan.mutable_execute()->mutable_sampler();
    SendByLane(plans, std::move(plan));
  });
  EXPECT_EQ(status, absl::InvalidArgumentError("a plan for another kind of stage"));
}

TEST_P(StagePortTest, OpensAsItsOwnKindAlone) {
  v1::StageRunRequest open = OpenOf(TestWiring(3), 60000);
  for (const bool set : {true, false}) {
    open.mutable_open()->clear_kind();
    if (set) open.mutable_open()->mutable_sampler();
    grpc::ClientContext context;
    const auto plans = stub_->Run(&context);
    ASSERT_TRUE(plans->Write(open));
    v1::StageRunResponse response;
    EXPECT_FALSE(plans->Read(&response));
    EXPECT_EQ(FromGrpc(plans->Finish()),
              absl::InvalidArgumentError("Open for another kind of stage than shard"));
  }
}

// A stage that rows do not come to, as the embedding.
class SourceStage final : public Stage {
 public:
  Role role() const override { return Role::kEmbedding; }
  bool TakesRows() const override { return false; }
  absl::StatusOr<std::shared_ptr<StageSession>> MakeSession(const StageOpening&) override {
    return absl::ResourceExhaustedError("no memory for it");
  }
  void Describe(v1::GetStageInfoResponse& info) const override {
    info.mutable_embedding()->set_hidden_size(kHidden);
  }
};

TEST(StageService, DescribesAStageAndEndsWhatItsStageRefuses) {
  SourceStage stage;
  StageService service(
      {.name = "m", .fingerprint = std::string(TestWiring(3).fingerprint()), .weights_digest = "d"},
      &stage);
  const auto server = *Server::Start({.address = "inproc:it", .services = {&service}});
  const auto stub =
      v1::StageService::NewStub(server->grpc_server()->InProcessChannel(grpc::ChannelArguments()));
  grpc::ClientContext info_context, push_context, run_context;
  v1::GetStageInfoResponse info;
  ASSERT_TRUE(stub->GetStageInfo(&info_context, {}, &info).ok());
  EXPECT_EQ(info.model_name(), "m");
  EXPECT_EQ(info.weights_digest(), "d");
  EXPECT_EQ(info.embedding().hidden_size(), kHidden);
  EXPECT_EQ(StageRoleOf(info), Role::kEmbedding);
  EXPECT_EQ(stub->Push(&push_context)->Finish().error_code(), grpc::StatusCode::UNIMPLEMENTED);
  const auto run = stub->Run(&run_context);
  v1::StageRunRequest open;
  SetWiring(TestWiring(3), *open.mutable_open());
  open.mutable_open()->mutable_embedding();
  run->Write(open);
  EXPECT_EQ(FromGrpc(run->Finish()), absl::ResourceExhaustedError("no memory for it"));
}

TEST(OpenBudget, EndsWhenTheOrchestratorsDoes) {
  v1::StageOpen open;
  const OpenBudget unset(open);
  EXPECT_GT(unset.deadline() - SteadyTime::Now(), absl::Minutes(9));
  open.set_open_timeout_ms(~uint32_t{0});
  const OpenBudget longest(open);
  EXPECT_LE(longest.deadline() - SteadyTime::Now(), OpenBudget::kMost);
  open.set_open_timeout_ms(2000);
  const OpenBudget budget(open);
  EXPECT_GT(budget.deadline() - SteadyTime::Now(), absl::ZeroDuration());
  EXPECT_LE(budget.ForRanks().Left(), absl::Seconds(2));
  EXPECT_TRUE(OpenBudget(absl::ZeroDuration()).ForRanks().HasPassed());
}

class RowIntakeTest : public ::testing::Test {
 protected:
  // As the stage before pushes them.
  static v1::PushStep StepOf(uint64_t id) {
    v1::PushStep step;
    step.set_step_id(id);
    return step;
  }

  const std::unique_ptr<Backend> backend_ = MakeReferenceBackend();
  ActivationsReceiver receiver_;
};

TEST_F(RowIntakeTest, GivesNothingOnceClosed) {
  RowIntake intake(receiver_, TestWiring(3), *backend_);
  intake.Open();
  const absl::Status reason = absl::AbortedError("replaced");
  std::thread waiting([&] { EXPECT_EQ(intake.RowsOf(1).status(), reason); });
  intake.Close(reason);
  waiting.join();
  EXPECT_EQ(intake.RowsOf(1).status(), reason);
}

// Rows of steps that no plan names would gather without end.
TEST_F(RowIntakeTest, RefusesRowsThatNoPlanAsksFor) {
  testing::ReceiverService service(receiver_);
  const auto server = *Server::Start({.address = "inproc:it", .services = {&service}});
  RowIntake intake(receiver_, TestWiring(3), *backend_);
  intake.Open();
  ActivationsSender sender(server->grpc_server()->InProcessChannel(grpc::ChannelArguments()),
                           TestWiring(3), [](const absl::Status&) {});
  ASSERT_TRUE(sender.WaitUntilOpen(SteadyTime::Now() + absl::Minutes(1)).ok());
  for (uint64_t step = 2; step < 5000; ++step) sender.Send(StepOf(step));
  EXPECT_EQ(intake.RowsOf(1).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace sluice
