// Models with states in place of keys and values, as whole pipelines: whatever is shared, found
// again, preempted, drafted or cut otherwise, a request has the bits that it has alone.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "services/model/memory_plan.h"
#include "services/model/model_config.h"
#include "tests/end_to_end/started_pipeline.h"
#include "tests/services/model/model_folder.h"
#include "tests/services/model/random_model.h"

namespace sluice::testing {
namespace {

class RecurrentBits : public ::testing::TestWithParam<std::string> {
 protected:
  RecurrentBits() {
    WriteRandomModel({.model_type = GetParam(), .seed = 6, .all_in_groups = true}, folder_);
  }

  StartedPipeline Start(InProcessOptions options = {}) const {
    options.model = folder_.path();
    options.draft_policy = DraftPolicy::kAlways;
    return StartPipeline(std::move(options));
  }

  TempFolder folder_;
};

INSTANTIATE_TEST_SUITE_P(Families, RecurrentBits,
                         ::testing::Values("qwen3_5_moe_text", "granitemoehybrid"),
                         [](const auto& info) { return info.param; });

v1::GenerateRequest StateRequest(int prompt_length, int max_tokens, int seed) {
  v1::GenerateRequest request =
      seed == 0 ? GreedyRequest("", max_tokens) : SampledRequest("", max_tokens, seed);
  for (int i = 0; i < prompt_length; ++i) {
    request.mutable_token_ids()->add_token_ids(3 + (i * i + i / 7) % 30);
  }
  request.set_logprobs(0);
  request.set_decline_prefix_cache(true);
  return request;
}

void ExpectSameSequences(const Generated& actual, const Generated& expected) {
  ASSERT_TRUE(actual.status.ok()) << actual.status;
  ASSERT_TRUE(expected.status.ok()) << expected.status;
  EXPECT_EQ(actual.sequences, expected.sequences);  // tokens and every log-probability
}

// Prefixes that end within a run of 64 positions and at its end, and turns of a conversation.
TEST_P(RecurrentBits, PrefixesThatAreFoundAgainChangeNone) {
  const StartedPipeline started = Start();
  for (const int length : {64, 65, 127, 128, 150, 200, 193, 90}) {
    v1::GenerateRequest request = StateRequest(length, 70, length);
    const Generated expected = started.client.Generate(request);
    request.set_decline_prefix_cache(false);
    for (int repetition = 0; repetition < 2; ++repetition) {
      const Generated found = started.client.Generate(request);
      ExpectSameSequences(found, expected);
      if (repetition == 1 && length > 64) {
        EXPECT_GE(found.finished.usage().num_cached_prompt_tokens(), 64) << length;
      }
    }
  }
}

// All at once, in as many blocks as two of them need, and as many slots for states.
TEST_P(RecurrentBits, NeighboursAndPreemptionsChangeNone) {
  const StartedPipeline roomy = Start();
  std::vector<v1::GenerateRequest> requests;
  for (int i = 0; i < 10; ++i) requests.push_back(StateRequest(20 + 31 * i, 40 + 9 * i, i));
  requests[3].set_n(3);
  const auto status = roomy.client.GetStatus();
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_EQ(status->kv_cache().block_size(), 64);
  EXPECT_GT(status->kv_cache().num_states(), 10);
  const ModelConfig config = LoadModelConfig(folder_.path()).value();
  const uint64_t block_bytes = 64 * KvBytesPerPosition(config, DType::kF32);
  const StartedPipeline tight =
      Start({.kv_cache_bytes = 12 * block_bytes + block_bytes / 2 + 4 * StateSlotBytes(config),
             .num_state_slots = 4});
  const std::vector<Generated> together = GenerateAtOnce(tight.client, requests);
  for (size_t i = 0; i < requests.size(); ++i) {
    SCOPED_TRACE(i);
    ExpectSameSequences(together[i], roomy.client.Generate(requests[i]));
  }
  const auto after = tight.client.GetStatus();
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_EQ(after->kv_cache().num_blocks(), 12);
  EXPECT_EQ(after->kv_cache().num_states(), 4);
  EXPECT_EQ(after->kv_cache().num_used_states(), 0);
}

TEST_P(RecurrentBits, RanksAndStagesChangeNone) {
  const v1::GenerateRequest request = StateRequest(100, 60, 5);
  const Generated expected = Start().client.Generate(request);
  for (const auto& [ranks, stages] : {std::pair(2, 1), std::pair(1, 2), std::pair(2, 2)}) {
    const StartedPipeline started = Start({.num_ranks = ranks, .num_stages = stages});
    ExpectSameSequences(started.client.Generate(request), expected);
  }
}

}  // namespace
}  // namespace sluice::testing
