#include "services/rpc/health_service.h"

#include <gmock/gmock.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "services/rpc/server.h"

namespace sluice {
namespace {

using grpc::health::v1::Health;
using grpc::health::v1::HealthCheckResponse;
using ::testing::ElementsAre;

class HealthServiceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    grpc::ServerBuilder builder;
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    stub_ = Health::NewStub(server_->InProcessChannel({}));
  }

  grpc::health::v1::HealthCheckRequest About(const std::string& name) {
    grpc::health::v1::HealthCheckRequest request;
    request.set_service(name);
    return request;
  }

  grpc::Status Check(const std::string& name, HealthCheckResponse& response) {
    grpc::ClientContext context;
    return stub_->Check(&context, About(name), &response);
  }

  HealthService service_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<Health::Stub> stub_;
};

TEST_F(HealthServiceTest, KnowsWhatItWasTold) {
  service_.Set("a", true);
  service_.Set("b", false);
  HealthCheckResponse response;
  EXPECT_TRUE(Check("a", response).ok());
  EXPECT_EQ(response.status(), HealthCheckResponse::SERVING);
  EXPECT_TRUE(Check("b", response).ok());
  EXPECT_EQ(response.status(), HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(Check("c", response).error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(HealthServiceTest, WatchersHearWhatIsSoAndEveryChange) {
  grpc::ClientContext context;
  const auto watch = stub_->Watch(&context, About("a"));
  HealthCheckResponse response;
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::SERVICE_UNKNOWN);
  service_.Set("a", false);
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::NOT_SERVING);
  service_.Set("b", true);
  service_.Set("a", false);
  service_.Set("a", true);
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::SERVING);
  service_.EndWatches();
  EXPECT_FALSE(watch->Read(&response));
  EXPECT_EQ(watch->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST(ServerHealth, AServerNeverSaysThatItServesBeforeItIsTold) {
  grpc::ChannelArguments arguments;  // that connect again and again, as fast as they can
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 1);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 1);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2);
  const std::string address = "unix:" + ::testing::TempDir() + "health_service_test.sock";
  for (int i = 0; i < 20; ++i) {
    const auto stub = Health::NewStub(
        grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments));
    std::vector<HealthCheckResponse::ServingStatus> heard;
    absl::Notification first;
    std::thread asker([&] {
      grpc::ClientContext context;
      context.set_wait_for_ready(true);
      const auto watch = stub->Watch(&context, {});
      HealthCheckResponse response;
      while (watch->Read(&response)) {
        heard.push_back(response.status());
        if (!first.HasBeenNotified()) first.Notify();
      }
    });
    const auto server = Server::Start({.address = address, .services = {}});
    ASSERT_TRUE(server.ok()) << server.status();
    first.WaitForNotification();
    (*server)->SetServing(true);
    (*server)->Shutdown(absl::Minutes(1));  // no watching holds it up
    asker.join();
    EXPECT_THAT(heard, ElementsAre(HealthCheckResponse::NOT_SERVING, HealthCheckResponse::SERVING));
  }
}

// What probes are told of a process that serves, that holds calls, that stops.
TEST(ServerHealth, AServerAcceptsCallsWhileItServesOrHoldsThem) {
  const std::string address = "unix:" + ::testing::TempDir() + "accepts_test.sock";
  const auto server = Server::Start({.address = "inproc:accepts", .services = {}});
  ASSERT_TRUE(server.ok()) << server.status();
  ASSERT_TRUE((*server)->ServeHealthOn({address}).ok());
  const auto stub =
      Health::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  const auto is_serving = [&](const std::string& name) {
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    grpc::health::v1::HealthCheckRequest request;
    request.set_service(name);
    HealthCheckResponse response;
    EXPECT_TRUE(stub->Check(&context, request, &response).ok());
    return response.status() == HealthCheckResponse::SERVING;
  };
  EXPECT_TRUE(is_serving("live"));
  EXPECT_FALSE(is_serving("accepts"));
  (*server)->SetHolding(true);
  EXPECT_TRUE(is_serving("accepts"));
  EXPECT_FALSE(is_serving(""));
  (*server)->SetServing(true);
  (*server)->SetHolding(false);
  EXPECT_TRUE(is_serving("accepts"));
  EXPECT_TRUE(is_serving(""));
  (*server)->SetHolding(true);
  (*server)->StopServing();
  EXPECT_FALSE(is_serving("accepts"));
  EXPECT_TRUE(is_serving("live"));
}

// Holds the thread of each call.
class HoldingService final : public Health::CallbackService {
 public:
  grpc::ServerUnaryReactor* Check(grpc::CallbackServerContext* context,
                                  const grpc::health::v1::HealthCheckRequest*,
                                  HealthCheckResponse*) override {
    ++num_held;
    let_go.WaitForNotification();
    grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

  std::atomic<int> num_held = 0;
  absl::Notification let_go;
};

// As when tens of thousands of calls wait to be begun: a supervisor must not take that for a hang.
TEST(ServerHealth, ProbesAreAnsweredWhileEveryThreadForCallsIsTaken) {
  const std::string probes = "unix:" + ::testing::TempDir() + "probes_test.sock";
  const auto server = Server::Start({.address = "inproc:probes", .services = {}});
  ASSERT_TRUE(server.ok()) << server.status();
  ASSERT_TRUE((*server)->ServeHealthOn({probes}).ok());
  const std::string busy = "unix:" + ::testing::TempDir() + "busy_test.sock";
  HoldingService service;
  grpc::ServerBuilder builder;
  builder.RegisterService(&service);
  builder.AddListeningPort(busy, grpc::InsecureServerCredentials());
  const std::unique_ptr<grpc::Server> holding = builder.BuildAndStart();
  constexpr int kCalls = 64;  // of at most 16 threads
  std::vector<std::thread> callers;
  for (int i = 0; i < kCalls; ++i) {
    callers.emplace_back([&busy] {
      const auto stub =
          Health::NewStub(grpc::CreateChannel(busy, grpc::InsecureChannelCredentials()));
      grpc::ClientContext context;
      context.set_wait_for_ready(true);
      HealthCheckResponse response;
      EXPECT_TRUE(stub->Check(&context, {}, &response).ok());
    });
  }
  while (service.num_held == 0) std::this_thread::yield();
  const auto stub =
      Health::NewStub(grpc::CreateChannel(probes, grpc::InsecureChannelCredentials()));
  for (int i = 0; i < 20; ++i) {
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    HealthCheckResponse response;
    EXPECT_TRUE(stub->Check(&context, {}, &response).ok());
    EXPECT_EQ(response.status(), HealthCheckResponse::NOT_SERVING);
  }
  EXPECT_LT(service.num_held, kCalls);
  service.let_go.Notify();
  for (std::thread& caller : callers) caller.join();
}

}  // namespace
}  // namespace sluice
