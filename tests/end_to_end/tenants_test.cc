// One tenant's load does not keep another waiting.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "tests/end_to_end/started_pipeline.h"

namespace sluice::testing {
namespace {

using ::testing::HasSubstr;

TEST(Tenants, AQuietOneIsServedWhileABusyOneHasAHundredCallsWaiting) {
  const StartedPipeline started = StartPipeline();
  const GenerationClient quiet(started.pipeline->channel(), "quiet");
  const GenerationClient busy(started.pipeline->channel(), "busy");
  const v1::GenerateRequest request = SampledRequest(kPrompt, 20, 3);
  const Generated expected = quiet.Generate(request);
  ASSERT_TRUE(expected.status.ok()) << expected.status;
  std::atomic<int> num_begun = 0, num_done = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 100; ++i) {
    threads.emplace_back([&, i] {
      std::atomic<bool> begun = false;
      const Generated result =
          busy.Generate(SampledRequest(kPrompt, 120, i), absl::Seconds(300), [&](const v1::Chunk&) {
            if (!begun.exchange(true)) ++num_begun;
            return true;
          });
      EXPECT_TRUE(result.status.ok()) << result.status;
      ++num_done;
    });
  }
  while (num_begun < 64) std::this_thread::yield();  // every place is taken
  const Generated served = quiet.Generate(request);
  EXPECT_EQ(served.sequences, expected.sequences);
  EXPECT_LT(num_done, 50) << "it waited until most of the others were done";
  for (std::thread& thread : threads) thread.join();
}

TEST(Tenants, APriorityThatIsNotGrantedIsRefusedByName) {
  v1::GenerateRequest request = GreedyRequest(kPrompt, 3);
  request.set_priority(2147483647);
  const StartedPipeline started = StartPipeline();
  const Generated refused =
      GenerationClient(started.pipeline->channel(), "pushy").Generate(request);
  EXPECT_EQ(refused.status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.status.message()),
              HasSubstr("priority is 2147483647; accepted for tenant \"pushy\": 0"));
}

TEST(Tenants, ATenantsNameHasALimit) {
  const StartedPipeline started = StartPipeline();
  const Generated refused = GenerationClient(started.pipeline->channel(), std::string(129, 'x'))
                                .Generate(GreedyRequest(kPrompt, 3));
  EXPECT_EQ(refused.status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.status.message()),
              HasSubstr("sluice-tenant has 129 bytes; accepted: 1 to 128"));
}

}  // namespace
}  // namespace sluice::testing
