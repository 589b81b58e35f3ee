// What the KV cache has kept of earlier requests shortens later ones and changes no bit of them.
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "tests/end_to_end/started_pipeline.h"

namespace sluice::testing {
namespace {

// Long enough for several blocks of 16 positions.
const std::string kStory =
    "Once upon a time there was a king who had three sons. The eldest was clever, the second was "
    "strong, and the youngest was called the simpleton, because he said little. When the king had "
    "become old and weak, and was thinking of his end, he did not know which of his sons should "
    "inherit the kingdom after him. ";

v1::GenerateRequest Sampled(const std::string& prompt, bool decline) {
  v1::GenerateRequest request = SampledRequest(prompt, 40, 5);
  request.set_logprobs(2);
  request.set_decline_prefix_cache(decline);
  return request;
}

void ExpectSame(const Generated& actual, const Generated& expected) {
  ASSERT_TRUE(actual.status.ok()) << actual.status;
  ASSERT_TRUE(expected.status.ok()) << expected.status;
  EXPECT_EQ(actual.sequences, expected.sequences);  // tokens, text and every log-probability
}

class PrefixCache : public ::testing::TestWithParam<std::pair<int, int>> {
 protected:
  const StartedPipeline started_ =
      StartPipeline({.num_ranks = GetParam().first, .num_stages = GetParam().second});
  const GenerationClient& client_ = started_.client;
};

INSTANTIATE_TEST_SUITE_P(RanksAndStages, PrefixCache,
                         ::testing::Values(std::pair(1, 1), std::pair(2, 2)));

TEST_P(PrefixCache, HitsGiveTheBitsOfMisses) {
  const Generated missed = client_.Generate(Sampled(kStory, true));
  EXPECT_EQ(missed.finished.usage().num_cached_prompt_tokens(), 0);
  const Generated first = client_.Generate(Sampled(kStory, false));
  EXPECT_EQ(first.finished.usage().num_cached_prompt_tokens(), 0);
  ExpectSame(first, missed);
  const Generated again = client_.Generate(Sampled(kStory, false));
  const int num_prompt = again.finished.usage().num_prompt_tokens();
  EXPECT_GE(again.finished.usage().num_cached_prompt_tokens(), num_prompt / 16 * 16 - 16);
  EXPECT_LT(again.finished.usage().num_cached_prompt_tokens(), num_prompt);
  ExpectSame(again, missed);
  // Another end, and more of the same.
  for (const std::string& prompt : {kStory + "So he", kStory.substr(0, kStory.size() / 2),
                                    kStory + missed.first().text + " Then"}) {
    const Generated other = client_.Generate(Sampled(prompt, false));
    EXPECT_GT(other.finished.usage().num_cached_prompt_tokens(), 16);
    ExpectSame(other, client_.Generate(Sampled(prompt, true)));
  }
}

// A conversation: each turn begins with all that was said before.
TEST_P(PrefixCache, GeneratedTokensAreFoundAgain) {
  std::vector<int32_t> tokens(40, 7);
  for (int turn = 0; turn < 4; ++turn) {
    v1::GenerateRequest request = SampledRequest("", 21, 9);
    request.mutable_token_ids()->mutable_token_ids()->Add(tokens.begin(), tokens.end());
    request.set_decline_prefix_cache(true);
    const Generated expected = client_.Generate(request);
    request.set_decline_prefix_cache(false);
    const Generated actual = client_.Generate(request);
    ExpectSame(actual, expected);
    const int cached = actual.finished.usage().num_cached_prompt_tokens();
    if (turn > 0) {
      EXPECT_GE(cached, static_cast<int>(tokens.size()) - 5 - 16) << turn;
    }
    tokens.insert(tokens.end(), actual.first().tokens.begin(), actual.first().tokens.end());
    for (int i = 0; i < 5; ++i) tokens.push_back(100 + turn);
  }
}

TEST_P(PrefixCache, SaltsKeepRequestsApart) {
  v1::GenerateRequest request = Sampled(kStory, false);
  const Generated unsalted = client_.Generate(request);
  for (const int expected_hit : {0, 1}) {
    request.set_cache_salt("tenant a");
    const Generated salted = client_.Generate(request);
    ExpectSame(salted, unsalted);
    EXPECT_EQ(salted.finished.usage().num_cached_prompt_tokens() > 0, expected_hit == 1);
  }
}

TEST_P(PrefixCache, SaysNothingOfWhatOtherTenantsSent) {
  const v1::GenerateRequest request = Sampled(kStory, false);
  const auto num_cached = [&](const std::string& tenant) {
    const GenerationClient client(started_.pipeline->channel(), tenant);
    return client.Generate(request).finished.usage().num_cached_prompt_tokens();
  };
  EXPECT_EQ(num_cached("a"), 0);
  EXPECT_GT(num_cached("a"), 0);
  EXPECT_EQ(num_cached("b"), 0);
}

// Several sequences fork off one prompt, inside a block, and go different ways there.
TEST_P(PrefixCache, ForkedSequencesHaveTheBitsOfTheirSoloRuns) {
  v1::GenerateRequest request = Sampled(kStory, true);
  request.set_n(5);
  const Generated declined = client_.Generate(request);
  ASSERT_TRUE(declined.status.ok()) << declined.status;
  EXPECT_EQ(declined.sequences.size(), 5u);
  const int num_prompt = declined.finished.usage().num_prompt_tokens();
  EXPECT_EQ(declined.finished.usage().num_shared_prompt_tokens(), 4 * (num_prompt - 1));
  request.set_decline_prefix_cache(false);
  ExpectSame(client_.Generate(request), declined);
  ExpectSame(client_.Generate(request), declined);
  const auto status = client_.GetStatus();
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_GT(status->kv_cache().num_copied_blocks(), 0u);
}

TEST_P(PrefixCache, ConcurrentRequestsShareAndAgree) {
  const Generated expected = client_.Generate(Sampled(kStory, true));
  std::vector<Generated> results(8);
  std::vector<std::thread> threads;
  for (Generated& result : results) {
    threads.emplace_back([&] { result = client_.Generate(Sampled(kStory, false)); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Generated& result : results) ExpectSame(result, expected);
}

// Where blocks run out, what is kept gives way and nothing else changes.
TEST(TightPrefixCache, EvictionChangesNoBit) {
  const StartedPipeline tight = StartPipeline({.kv_cache_bytes = 1 << 20});
  for (int round = 0; round < 3; ++round) {
    for (const char* name : {"Hans", "Grete", "Fritz", "Liese"}) {
      const std::string prompt = std::string(name) + " spoke: " + kStory;
      ExpectSame(tight.client.Generate(Sampled(prompt, false)),
                 SharedClient().Generate(Sampled(prompt, true)));
    }
  }
  const auto status = tight.client.GetStatus();
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_GT(status->kv_cache().num_evicted_blocks(), 0u);
}

}  // namespace
}  // namespace sluice::testing
