// What a server says of the requests that it serves, and how it keeps its memory from clients that do
// not read.
#include <gmock/gmock.h>
#include <grpcpp/client_context.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "sluice/v1/generation.grpc.pb.h"
#include "tests/end_to_end/started_pipeline.h"

namespace sluice::testing {
namespace {

v1::GetStatusResponse StatusOf(v1::GenerationService::Stub& stub, const std::string& id) {
  grpc::ClientContext context;
  v1::GetStatusRequest request;
  request.set_request_id(id);
  v1::GetStatusResponse response;
  const grpc::Status status = stub.GetStatus(&context, request, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return response;
}

// Waits for it to hold, a minute at most.
bool Await(const std::function<bool()>& holds) {
  const absl::Time deadline = absl::Now() + absl::Minutes(1);
  while (!holds()) {
    if (absl::Now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

TEST(Ledger, ShowsWhatAnEndedRequestUsed) {
  const StartedPipeline started = StartPipeline();
  const auto stub = v1::GenerationService::NewStub(started.pipeline->channel());
  v1::GenerateRequest request = SampledRequest(kPrompt, 40, 3);
  request.set_request_id("twice");
  // Longer than a block, so that some of it is kept.
  request.set_text(std::string(kPrompt) +
                   " had a daughter. Every day the daughter of the king said: " + kPrompt);
  request.set_n(2);
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(started.client.Generate(request).status.ok());
  v1::GetStatusResponse status;
  ASSERT_TRUE(Await([&] { return (status = StatusOf(*stub, "twice")).requests_size() == 2; }));
  const v1::RequestStatus& again = status.requests(1);
  EXPECT_EQ(again.state(), v1::REQUEST_STATE_ENDED);
  EXPECT_EQ(again.outcome(), "ok");
  EXPECT_EQ(again.detail(), "length,length");
  EXPECT_GE(again.age_ms(), again.first_token_ms());
  EXPECT_GE(again.first_token_ms(), again.queue_ms());
  ASSERT_EQ(again.sequences_size(), 2);
  EXPECT_GT(again.sequences(0).num_hit_positions(), 0) << "its prompt was known";
  EXPECT_GT(again.sequences(1).num_shared_positions(), 0) << "its sibling had the prompt";
  EXPECT_EQ(again.sequences(1).num_generated_tokens(), 40);
  EXPECT_EQ(again.sequences(1).num_held_blocks(), 0);
  EXPECT_EQ(status.num_integrity_faults(), 0u);
}

// Sixteen sequences with twenty alternatives a token make more than waits for a client.
TEST(Ledger, ASequenceWhoseClientDoesNotReadGivesUpItsBlocksAndGoesOnLater) {
  const StartedPipeline started = StartPipeline();
  const auto stub = v1::GenerationService::NewStub(started.pipeline->channel());
  v1::GenerateRequest request = SampledRequest(kPrompt, 480, 5);
  request.set_n(16);
  request.set_logprobs(20);
  const Generated expected = started.client.Generate(request, absl::Minutes(2));
  ASSERT_TRUE(expected.status.ok()) << expected.status;
  request.set_request_id("slow");
  grpc::ClientContext context;
  const auto reader = stub->Generate(&context, request);
  ASSERT_TRUE(Await([&] {
    const v1::GetStatusResponse status = StatusOf(*stub, "slow");
    return status.requests_size() == 1 && status.requests(0).state() == v1::REQUEST_STATE_PAUSED &&
           status.kv_cache().num_used_blocks() == 0;
  }));
  std::vector<std::vector<int32_t>> tokens(16);
  v1::GenerateResponse response;
  while (reader->Read(&response)) {
    const auto& ids = response.chunk().token_ids();
    auto& into = tokens.at(response.chunk().sequence());
    into.insert(into.end(), ids.begin(), ids.end());
  }
  ASSERT_TRUE(reader->Finish().ok());
  for (int i = 0; i < 16; ++i) EXPECT_EQ(tokens[i], expected.sequences.at(i).tokens) << i;
  const v1::GetStatusResponse status = StatusOf(*stub, "slow");
  ASSERT_EQ(status.requests_size(), 1);
  int64_t recomputed = 0, preemptions = 0;
  for (const v1::SequenceStatus& sequence : status.requests(0).sequences()) {
    recomputed += sequence.recomputed().after_pause() + sequence.num_hit_positions();
    preemptions += sequence.num_preemptions();
  }
  EXPECT_GT(recomputed, 0);
  EXPECT_EQ(preemptions, 0);
}

}  // namespace
}  // namespace sluice::testing
