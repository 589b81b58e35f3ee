// LoRA adapters through the whole pipeline: who has which, whose bits they change, and what is kept
// apart. The arithmetic is tested against the oracle in tests/services/shard/adapter_oracle_test.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/end_to_end/random_adapter.h"
#include "tests/end_to_end/started_pipeline.h"
#include "tests/services/model/model_folder.h"
#include "tests/testing/test_data.h"

namespace sluice::testing {
namespace {

using ::testing::HasSubstr;

class AdaptersTest : public ::testing::Test {
 protected:
  // Of three adapters, made once.
  static const TempFolder& Folder() {
    static const TempFolder* const folder = [] {
      auto* made = new TempFolder;
      for (const auto& [name, seed] :
           std::map<std::string, uint64_t>{{"a", 1}, {"b", 2}, {"c", 3}}) {
        WriteRandomAdapter(made->PathOf(name), ProjectPath("models/storyteller"), seed,
                           name == "b" ? 7 : 4);
      }
      return made;
    }();
    return *folder;
  }

  static InProcessOptions WithAdapters(InProcessOptions options = {}) {
    options.values.Put("adapters", absl::StrCat("a=", Folder().PathOf("a"), ",b=",
                                                Folder().PathOf("b"), ",c=", Folder().PathOf("c")));
    return options;
  }

  static v1::GenerateRequest Request(const std::string& adapter, uint64_t seed = 7,
                                     const std::string& prompt = kPrompt) {
    v1::GenerateRequest request = SampledRequest(prompt, 30, seed);
    request.set_adapter(adapter);
    request.set_logprobs(0);
    return request;
  }

  // What each adapter writes, alone on one rank.
  static const GeneratedSequence& Alone(const std::string& adapter, uint64_t seed = 7) {
    static const StartedPipeline* const started =
        new StartedPipeline(StartPipeline(WithAdapters()));
    static auto* const known = new std::map<std::pair<std::string, uint64_t>, GeneratedSequence>;
    const auto [entry, is_new] = known->try_emplace({adapter, seed});
    if (is_new) {
      const Generated generated = started->client.Generate(Request(adapter, seed));
      EXPECT_TRUE(generated.status.ok()) << generated.status;
      if (generated.status.ok()) entry->second = generated.first();
    }
    return entry->second;
  }

  // Streams of no adapter and of all of them, at once, each with a seed of its own.
  static void ExpectMixedStreamsAsAlone(const GenerationClient& client, int count) {
    std::vector<v1::GenerateRequest> requests;
    const std::vector<std::string> adapters = {"", "a", "b", "c", "b"};
    for (int i = 0; i < count; ++i) requests.push_back(Request(adapters[i % 5], i));
    const std::vector<Generated> together = GenerateAtOnce(client, requests);
    for (int i = 0; i < count; ++i) {
      ASSERT_TRUE(together[i].status.ok()) << together[i].status;
      EXPECT_EQ(together[i].first(), Alone(adapters[i % 5], i))
          << "stream " << i << " of adapter \"" << adapters[i % 5] << "\"";
    }
  }
};

TEST_F(AdaptersTest, RequestsWithoutAdapterHaveTheBitsOfAServerWithoutAdapters) {
  v1::GenerateRequest request = Request("");
  EXPECT_EQ(Alone(""), SharedClient().Generate(request).first());
  EXPECT_NE(Alone("a").tokens, Alone("").tokens);
  EXPECT_NE(Alone("b").tokens, Alone("").tokens);
  EXPECT_NE(Alone("b").tokens, Alone("a").tokens);
}

TEST_F(AdaptersTest, EveryStreamOfAMixedStepWritesWhatItWritesAlone) {
  const StartedPipeline started = StartPipeline(WithAdapters());
  ExpectMixedStreamsAsAlone(started.client, 20);
}

TEST_F(AdaptersTest, RanksAndStagesChangeNoBit) {
  for (const auto& [ranks, stages] :
       std::vector<std::pair<int, int>>{{2, 1}, {4, 1}, {1, 2}, {2, 2}}) {
    const StartedPipeline started =
        StartPipeline(WithAdapters({.num_ranks = ranks, .num_stages = stages}));
    ExpectMixedStreamsAsAlone(started.client, 5);
  }
}

TEST_F(AdaptersTest, MoreAdaptersThanSlotsTakeTurns) {
  InProcessOptions options = WithAdapters();
  options.values.Put("max_loaded_adapters", "1");
  const StartedPipeline started = StartPipeline(options);
  ExpectMixedStreamsAsAlone(started.client, 10);
}

TEST_F(AdaptersTest, PreemptionChangesNoBit) {
  // 16 blocks of 16 positions: see SameBits.
  const StartedPipeline tight = StartPipeline(WithAdapters({.kv_cache_bytes = 1 << 20}));
  ExpectMixedStreamsAsAlone(tight.client, 15);
}

TEST_F(AdaptersTest, CachedPrefixesAreThoseOfTheSameAdapter) {
  const StartedPipeline started = StartPipeline(WithAdapters());
  const std::string prompt =
      "Once upon a time there was a king who had three sons. The eldest was clever, the second was "
      "strong, and the youngest was called the simpleton, because he said little.";
  const auto cached = [&](const std::string& adapter) {
    const Generated generated = started.client.Generate(Request(adapter, 7, prompt));
    EXPECT_TRUE(generated.status.ok()) << generated.status;
    return generated.finished.usage().num_cached_prompt_tokens();
  };
  for (const char* const adapter : {"", "a", "b"}) {
    EXPECT_EQ(cached(adapter), 0) << "\"" << adapter << "\" found another's";
    EXPECT_GT(cached(adapter), 16) << "\"" << adapter << "\" did not find its own";
  }
}

TEST_F(AdaptersTest, ScoresWithAnAdapterAreThoseOfItsText) {
  const StartedPipeline started = StartPipeline(WithAdapters());
  const auto prompt = started.client.Tokenize(kPrompt);
  ASSERT_TRUE(prompt.ok()) << prompt.status();
  v1::GenerateRequest request = Request("a");
  *request.mutable_token_ids()->mutable_token_ids() = prompt->token_ids();
  const Generated generated = started.client.Generate(request);
  ASSERT_TRUE(generated.status.ok()) << generated.status;
  const auto scored = [&](const std::string& adapter) {
    v1::ScoreRequest score;
    score.set_adapter(adapter);
    auto& ids = *score.mutable_token_ids()->mutable_token_ids();
    ids = prompt->token_ids();
    for (const int32_t token : generated.first().tokens) ids.Add(token);
    const auto response = started.client.Score(score);
    EXPECT_TRUE(response.ok()) << response.status();
    std::vector<float> logprobs;
    for (int i = prompt->token_ids_size() - 1; response.ok() && i < response->logprobs_size();
         ++i) {
      logprobs.push_back(response->logprobs(i).logprob());
    }
    return logprobs;
  };
  EXPECT_EQ(scored("a"), generated.first().logprobs);
  EXPECT_NE(scored("b"), generated.first().logprobs);
}

TEST_F(AdaptersTest, AnUnknownAdapterIsRefusedByName) {
  const StartedPipeline started = StartPipeline(WithAdapters());
  const Generated refused = started.client.Generate(Request("d"));
  EXPECT_EQ(refused.status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(refused.status.message()),
              HasSubstr("adapter is \"d\", which is not loaded; accepted: a, b, c"));
  v1::ScoreRequest score;
  score.set_text("Once");
  score.set_adapter("d");
  EXPECT_EQ(started.client.Score(score).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(SharedClient().Generate(Request("d")).status.code(), absl::StatusCode::kNotFound);
}

TEST_F(AdaptersTest, AMissingAdapterStopsTheStart) {
  const TempFolder other;
  InProcessOptions options;
  options.model = ProjectPath("models/storyteller");
  options.values.Put("adapters", absl::StrCat("x=", other.PathOf("nothing")));
  const auto started = StartInProcess(options);
  EXPECT_EQ(started.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(started.status().message()), HasSubstr("--adapters: x"));
}

}  // namespace
}  // namespace sluice::testing
