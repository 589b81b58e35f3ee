// LoRA adapters through the whole pipeline: who has which, whose bits they change, and what is kept
// apart. The arithmetic is tested against the oracle in tests/services/shard/adapter_oracle_test.cc.
#include <gmock/gmock.h>
#include <grpcpp/client_context.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/common/status.h"
#include "sluice/v1/generation.grpc.pb.h"
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

// ---- While the server runs ----

class LoadedAdaptersTest : public AdaptersTest {
 protected:
  static StartedPipeline Start(const std::string& rules) {
    InProcessOptions options;
    options.values.Put("tenants", Folder().Write("tenants.json", rules));
    options.values.Put("max_loaded_adapters", "2");
    return StartPipeline(options);
  }

  static absl::Status Load(const StartedPipeline& started, const std::string& name,
                           const std::string& folder, bool replace = false) {
    v1::LoadAdapterRequest request;
    request.set_name(name);
    request.set_folder(folder);
    request.set_replace(replace);
    v1::LoadAdapterResponse response;
    grpc::ClientContext context;
    return FromGrpc(v1::GenerationService::NewStub(started.pipeline->channel())
                        ->LoadAdapter(&context, request, &response));
  }

  static absl::Status Unload(const StartedPipeline& started, const std::string& name) {
    v1::UnloadAdapterRequest request;
    request.set_name(name);
    v1::UnloadAdapterResponse response;
    grpc::ClientContext context;
    return FromGrpc(v1::GenerationService::NewStub(started.pipeline->channel())
                        ->UnloadAdapter(&context, request, &response));
  }

  static v1::ListAdaptersResponse List(const StartedPipeline& started) {
    v1::ListAdaptersResponse response;
    grpc::ClientContext context;
    const grpc::Status status = v1::GenerationService::NewStub(started.pipeline->channel())
                                    ->ListAdapters(&context, {}, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }

  static constexpr char kAllowed[] = R"({"default": {"loads_adapters": true}})";
};

TEST_F(LoadedAdaptersTest, RequestsMayNameAnAdapterFromItsLoadToItsUnload) {
  const StartedPipeline started = Start(kAllowed);
  ASSERT_TRUE(Load(started, "x", Folder().PathOf("a")).ok());
  EXPECT_EQ(started.client.Generate(Request("x")).first(), Alone("a"));
  const v1::ListAdaptersResponse listed = List(started);
  ASSERT_EQ(listed.adapters_size(), 1);
  EXPECT_EQ(listed.adapters(0).name(), "x");
  EXPECT_EQ(listed.adapters(0).folder(), Folder().PathOf("a"));
  EXPECT_EQ(listed.adapters(0).max_rank(), 4);
  EXPECT_EQ(listed.base_model(), "storyteller");
  EXPECT_EQ(Load(started, "x", Folder().PathOf("b")).code(), absl::StatusCode::kAlreadyExists);
  // What was cached of the first one of that name is not the second one's.
  ASSERT_TRUE(Load(started, "x", Folder().PathOf("b"), /*replace=*/true).ok());
  EXPECT_EQ(started.client.Generate(Request("x")).first(), Alone("b"));
  ASSERT_TRUE(Unload(started, "x").ok());
  EXPECT_EQ(started.client.Generate(Request("x")).status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Unload(started, "x").code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(List(started).adapters_size(), 0);
}

TEST_F(LoadedAdaptersTest, CallersNeedTheOperatorsLeave) {
  const StartedPipeline started = Start(R"({"default": {}})");
  const absl::Status refused = Load(started, "x", Folder().PathOf("a"));
  EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("loads_adapters"));
  EXPECT_EQ(Unload(started, "x").code(), absl::StatusCode::kPermissionDenied);
}

TEST_F(LoadedAdaptersTest, FoldersThatAreNoAdapterAreRefusedByName) {
  const StartedPipeline started = Start(kAllowed);
  EXPECT_EQ(Load(started, "x", "/nowhere").code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Load(started, "storyteller", Folder().PathOf("a")).code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(Load(started, "a b", Folder().PathOf("a")).code(), absl::StatusCode::kInvalidArgument);
  const TempFolder broken;
  WriteRandomAdapter(broken.PathOf("r"), ProjectPath("models/storyteller"), 1);
  std::ofstream(broken.PathOf("r") + "/adapter_config.json")
      << R"({"peft_type": "LORA", "lora_alpha": 1, "r": 1000})";
  const absl::Status rank = Load(started, "x", broken.PathOf("r"));
  EXPECT_EQ(rank.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(rank.message()), HasSubstr("accepted: 1 to 256"));
}

int64_t ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  int64_t all = 0, resident = 0;
  file >> all >> resident;
  return resident * 4096;
}

// Each in a slot that another one had: 200 would be 40 MB by now.
TEST_F(LoadedAdaptersTest, TwoHundredLoadsAndUnloadsLeaveNoMemoryBehind) {
  const StartedPipeline started = Start(kAllowed);
  const auto round = [&](int i) {
    const char* const folder = i % 3 == 0 ? "a" : i % 3 == 1 ? "b" : "c";
    ASSERT_TRUE(Load(started, "x", Folder().PathOf(folder)).ok());
    v1::GenerateRequest request = Request("x");
    request.set_max_tokens(1);
    ASSERT_TRUE(started.client.Generate(request).status.ok());
    ASSERT_TRUE(Unload(started, "x").ok());
  };
  for (int i = 0; i < 60; ++i) round(i);
  const int64_t before = ResidentBytes();
  for (int i = 0; i < 200; ++i) round(i);
  EXPECT_LT(ResidentBytes() - before, 8 << 20);
}

}  // namespace
}  // namespace sluice::testing
