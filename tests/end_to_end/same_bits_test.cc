// A token depends neither on neighbours, ranks and stages nor on preemption: the whole pipeline.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "services/model/model_config.h"
#include "tests/end_to_end/started_pipeline.h"
#include "tests/testing/test_data.h"

namespace sluice::testing {
namespace {

TEST(SameBits, GivesTheSameBitsForEveryNumberOfRanksAndStages) {
  const Generated greedy = SharedClient().Generate(GreedyRequest(kPrompt, 40));
  const Generated sampled = SharedClient().Generate(SampledRequest(kPrompt, 40, 7));
  ASSERT_TRUE(greedy.status.ok()) << greedy.status;
  ASSERT_EQ(greedy.first().tokens.size(), 40u);
  ASSERT_NE(greedy.first().text, sampled.first().text);
  for (const auto& [ranks, stages] :
       std::vector<std::pair<int, int>>{{2, 1}, {4, 1}, {1, 2}, {2, 2}, {1, 3}}) {
    const StartedPipeline started = StartPipeline({.num_ranks = ranks, .num_stages = stages});
    EXPECT_EQ(started.client.Generate(GreedyRequest(kPrompt, 40)).first(), greedy.first())
        << ranks << " ranks, " << stages << " stages";
    EXPECT_EQ(started.client.Generate(SampledRequest(kPrompt, 40, 7)).first(), sampled.first())
        << ranks << " ranks, " << stages << " stages";
  }
}

// Options whose effect depends on all tokens so far.
void LookBack(int kind, v1::SamplingOptions& sampling) {
  if (kind % 3 == 0) sampling.set_repetition_penalty(1.2F);
  if (kind % 3 == 1) sampling.set_frequency_penalty(0.5F);
  if (kind % 3 == 2) sampling.set_no_repeat_ngram_size(3);
  sampling.set_dry_multiplier(0.8F);
  sampling.set_min_tokens(4);
}

std::vector<v1::GenerateRequest> MixedRequests(int count) {
  const std::vector<std::string> prompts = {
      kPrompt, "The wolf", "\"Come here,\" said the old woman, and",
      "In a far country, beyond the seven mountains and the seven seas, there lived a miller with "
      "three sons. The eldest was clever, the second was strong, and the youngest"};
  std::vector<v1::GenerateRequest> requests;
  for (int i = 0; i < count; ++i) {
    const std::string& prompt = prompts[i % prompts.size()];
    const int max_tokens = 8 + (i * 7) % 50;
    requests.push_back(i % 3 == 0 ? GreedyRequest(prompt, max_tokens)
                                  : SampledRequest(prompt, max_tokens, 1000 + i));
    requests.back().set_logprobs(0);
    if (i % 2 == 1) LookBack(i, *requests.back().mutable_sampling());
  }
  return requests;
}

TEST(SameBits, GivesThirtyTwoConcurrentStreamsTheBitsOfTheirSoloRuns) {
  const std::vector<v1::GenerateRequest> requests = MixedRequests(32);
  const std::vector<Generated> together = GenerateAtOnce(SharedClient(), requests);
  for (size_t i = 0; i < requests.size(); ++i) {
    ASSERT_TRUE(together[i].status.ok()) << together[i].status;
    const Generated alone = SharedClient().Generate(requests[i]);
    // Tokens, text and every log-probability.
    EXPECT_EQ(together[i].first(), alone.first()) << "request " << i;
    EXPECT_EQ(static_cast<int>(alone.first().tokens.size()), requests[i].max_tokens());
  }
}

TEST(SameBits, GivesTheSameBitsWhenBlocksRunOutAndSequencesArePreempted) {
  const std::vector<v1::GenerateRequest> requests = MixedRequests(16);
  // 8 layers of 2 x 4 heads x 32 dimensions in bf16 are 4 KiB a position: 16 blocks of 16
  // positions.
  const StartedPipeline tight = StartPipeline({.kv_cache_bytes = 1 << 20});
  const absl::StatusOr<v1::GetStatusResponse> status = tight.client.GetStatus();
  ASSERT_TRUE(status.ok()) << status.status();
  ASSERT_LE(status->kv_cache().num_blocks(), 32);
  const std::vector<Generated> together = GenerateAtOnce(tight.client, requests);
  for (size_t i = 0; i < requests.size(); ++i) {
    ASSERT_TRUE(together[i].status.ok()) << together[i].status;
    EXPECT_EQ(together[i].first(), SharedClient().Generate(requests[i]).first()) << "request " << i;
  }
}

// Beyond the model's own context every further token turns all positions otherwise, so each must
// come from a sequence that was computed as a whole: the same as from a prompt that is so long.
TEST(SameBits, TokensOfALengthThatTurnsOtherwiseAreThoseOfALongerPrompt) {
  const std::string model = ProjectPath("models/storyteller");
  const int context = LoadModelConfig(model)->max_positions;
  const StartedPipeline started =
      StartPipeline({.overrides = {"dynamic,factor=2"}, .num_ranks = 2});
  v1::GenerateRequest request = GreedyRequest("", 8);
  for (int i = 0; i < context - 4; ++i) request.mutable_token_ids()->add_token_ids(100 + i % 50);
  const Generated grown = started.client.Generate(request);
  ASSERT_TRUE(grown.status.ok()) << grown.status;
  const auto& tokens = grown.first().tokens;
  ASSERT_EQ(tokens.size(), 8u);
  for (size_t known = 1; known < tokens.size(); ++known) {
    request.mutable_token_ids()->add_token_ids(tokens[known - 1]);
    request.set_max_tokens(1);
    const Generated next = started.client.Generate(request);
    ASSERT_TRUE(next.status.ok()) << next.status;
    ASSERT_EQ(next.first().tokens.size(), 1u);
    EXPECT_EQ(next.first().tokens[0], tokens[known]) << known << " known";
  }
  const StartedPipeline unscaled = StartPipeline();
  EXPECT_EQ(unscaled.client.Generate(request).status.code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace sluice::testing
