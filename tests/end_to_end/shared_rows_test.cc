// Rows that stay in memory of the device from stage to stage: the whole pipeline in one process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "services/streams/sent_bytes.h"
#include "tests/end_to_end/async_devices.h"
#include "tests/end_to_end/started_pipeline.h"

namespace sluice::testing {
namespace {

constexpr uint64_t kRowBytes = 256 * sizeof(float);  // the storyteller's

// Of 300 tokens or so.
std::string LongPrompt() {
  std::string prompt;
  for (int i = 0; i < 40; ++i) prompt += "There was once a miller who had a mill. ";
  return prompt;
}

struct Passed {
  Generated generated;
  uint64_t bytes = 0;  // that stages sent each other
};

Passed GenerateFrom(const GenerationClient& client, const std::string& prompt) {
  std::atomic<uint64_t>& sent = SentBytesCounter("PushRequest");
  const uint64_t before = sent;
  Passed passed{.generated = client.Generate(GreedyRequest(prompt, 24))};
  passed.bytes = sent - before;
  return passed;
}

TEST(SharedRows, HaveTheBitsOfThoseThatAreSent) {
  const Passed plain = GenerateFrom(SharedClient(), LongPrompt());
  ASSERT_TRUE(plain.generated.status.ok()) << plain.generated.status;
  // Two hops: to the shard all rows, to the sampler one a step.
  ASSERT_GT(plain.bytes, 300 * kRowBytes);
  MakeDevicesAsync(true);
  for (const auto& [ranks, stages] :
       std::vector<std::pair<int, int>>{{1, 1}, {2, 1}, {1, 2}, {2, 2}}) {
    const StartedPipeline started = StartPipeline({.num_ranks = ranks, .num_stages = stages});
    // Rings are opened with the first steps.
    const Passed first = GenerateFrom(started.client, kPrompt);
    ASSERT_TRUE(first.generated.status.ok()) << first.generated.status;
    const Passed shared = GenerateFrom(started.client, LongPrompt());
    EXPECT_EQ(shared.generated.first(), plain.generated.first())
        << ranks << " ranks, " << stages << " stages";
    EXPECT_LT(shared.bytes, plain.bytes / 10) << ranks << " ranks, " << stages << " stages";
  }
  MakeDevicesAsync(false);
}

}  // namespace
}  // namespace sluice::testing
