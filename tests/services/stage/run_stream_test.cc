// The control stream of a stage, over an in-process server.
#include "services/stage/run_stream.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "services/common/status.h"
#include "services/rpc/server.h"
#include "sluice/v1/stage.grpc.pb.h"

namespace sluice {
namespace {

struct FakeSession final : StageSession {
  std::vector<uint64_t> steps;
  absl::Status closed;
  void Run() override {}
  void AddPlan(v1::StageRunRequest request) override {
    steps.push_back(request.execute().step_id());
  }
  void Close(const absl::Status& reason) override { closed = reason; }
};

class RunService final : public v1::StageService::CallbackService {
 public:
  grpc::ServerBidiReactor<v1::StageRunRequest, v1::StageRunResponse>* Run(
      grpc::CallbackServerContext* context) override {
    return ServeRunStream(
        *context,
        [this](const v1::StageOpen& open, auto&) -> absl::StatusOr<std::shared_ptr<StageSession>> {
          if (open.epoch() == 0) return absl::AbortedError("not epoch 0");
          return session;
        });
  }
  const std::shared_ptr<FakeSession> session = std::make_shared<FakeSession>();
};

enum class Part { kOpen, kOpenRefused, kExecute, kNothing };

// Sends the parts and gives the status that the stream ends with; half-closes after them.
absl::Status Talk(RunService& service, const std::vector<Part>& parts) {
  const auto server = *Server::Start({.address = "inproc:it", .services = {&service}});
  const auto stub =
      v1::StageService::NewStub(server->grpc_server()->InProcessChannel(grpc::ChannelArguments()));
  grpc::ClientContext context;
  const auto stream = stub->Run(&context);
  for (const Part part : parts) {
    v1::StageRunRequest request;
    if (part == Part::kOpen) request.mutable_open()->set_epoch(1);
    if (part == Part::kOpenRefused) request.mutable_open();
    if (part == Part::kExecute) request.mutable_execute()->set_step_id(8);
    if (!stream->Write(request)) break;
  }
  stream->WritesDone();
  return FromGrpc(stream->Finish());
}

TEST(RunStream, FeedsItsSessionAndClosesItAtTheEnd) {
  RunService service;
  EXPECT_EQ(Talk(service, {Part::kOpen, Part::kExecute, Part::kExecute}).code(),
            absl::StatusCode::kCancelled);
  EXPECT_EQ(service.session->steps, (std::vector<uint64_t>{8, 8}));
  EXPECT_EQ(service.session->closed.code(), absl::StatusCode::kCancelled);
}

TEST(RunStream, EndsWithAnErrorWhereTheProtocolIsBroken) {
  RunService service;
  EXPECT_EQ(Talk(service, {Part::kExecute}), absl::FailedPreconditionError("Execute before Open"));
  EXPECT_EQ(Talk(service, {Part::kOpen, Part::kOpen}),
            absl::FailedPreconditionError("this stream is open already"));
  EXPECT_EQ(Talk(service, {Part::kOpenRefused}), absl::AbortedError("not epoch 0"));
  EXPECT_EQ(Talk(service, {Part::kNothing}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(service.session->steps.empty());
}

}  // namespace
}  // namespace sluice
