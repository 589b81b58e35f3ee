// What the whole pipeline refuses: requests, and models or topologies to start with.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/end_to_end/started_pipeline.h"
#include "tests/testing/test_data.h"

namespace sluice::testing {
namespace {

using ::testing::HasSubstr;

struct BadRequest {
  std::string name;
  void (*spoil)(v1::GenerateRequest&);
  std::string message;  // a part of it
};

class BadRequestTest : public ::testing::TestWithParam<BadRequest> {};

TEST_P(BadRequestTest, IsRefusedByNameAndHarmsNothing) {
  v1::GenerateRequest request = GreedyRequest(kPrompt, 5);
  GetParam().spoil(request);
  const Generated refused = SharedClient().Generate(request);
  EXPECT_EQ(refused.status.code(), absl::StatusCode::kInvalidArgument) << refused.status;
  EXPECT_THAT(std::string(refused.status.message()), HasSubstr(GetParam().message));
  EXPECT_TRUE(SharedClient().Generate(GreedyRequest(kPrompt, 5)).status.ok());
}

INSTANTIATE_TEST_SUITE_P(
    All, BadRequestTest,
    ::testing::ValuesIn(std::vector<BadRequest>{
        {"NoPrompt", [](auto& r) { r.clear_prompt(); }, "no prompt"},
        {"EmptyText", [](auto& r) { r.set_text(""); }, "text is empty"},
        {"EmptyTokens", [](auto& r) { r.mutable_token_ids(); }, "token_ids are empty"},
        {"EmptyChat", [](auto& r) { r.mutable_chat(); }, "no messages"},
        {"TokenAboveVocabulary", [](auto& r) { r.mutable_token_ids()->add_token_ids(4096); },
         "token_ids[0] is 4096; accepted: 0 to 4095"},
        {"NegativeToken", [](auto& r) { r.mutable_token_ids()->add_token_ids(-1); },
         "token_ids[0] is -1"},
        {"NegativeTemperature", [](auto& r) { r.mutable_sampling()->set_temperature(-0.5); },
         "sampling.temperature is -0.5"},
        {"NanTemperature", [](auto& r) { r.mutable_sampling()->set_temperature(std::nanf("")); },
         "sampling.temperature is nan"},
        {"InfiniteTemperature", [](auto& r) { r.mutable_sampling()->set_temperature(INFINITY); },
         "sampling.temperature is inf"},
        {"ZeroTopP", [](auto& r) { r.mutable_sampling()->set_top_p(0); }, "sampling.top_p is 0"},
        {"LargeTopP", [](auto& r) { r.mutable_sampling()->set_top_p(1.5); },
         "sampling.top_p is 1.5"},
        {"NanTopP", [](auto& r) { r.mutable_sampling()->set_top_p(std::nanf("")); },
         "sampling.top_p is nan"},
        {"NegativeTopK", [](auto& r) { r.mutable_sampling()->set_top_k(-3); },
         "sampling.top_k is -3"},
        {"ZeroMaxTokens", [](auto& r) { r.set_max_tokens(0); }, "max_tokens is 0"},
        {"LargeMaxTokens", [](auto& r) { r.set_max_tokens(513); }, "max_tokens is 513"},
        {"MaxTokensBeyondContext", [](auto& r) { r.set_max_tokens(512); }, "512"},
        {"ZeroN", [](auto& r) { r.set_n(0); }, "n is 0"},
        {"LargeN", [](auto& r) { r.set_n(17); }, "n is 17"},
        {"LargeLogprobs", [](auto& r) { r.set_logprobs(21); }, "logprobs is 21"},
        {"EmptyStopString", [](auto& r) { r.mutable_stop()->add_stop_strings(""); },
         "stop.stop_strings is 0"},
        {"StopTokenAboveVocabulary", [](auto& r) { r.mutable_stop()->add_stop_token_ids(5000); },
         "stop.stop_token_ids[0] is 5000"},
        {"LongRequestId", [](auto& r) { r.set_request_id(std::string(129, 'x')); },
         "request_id is 129"},
        {"PromptBeyondContext",
         [](auto& r) {
           for (int i = 0; i < 600; ++i) r.mutable_token_ids()->add_token_ids(5);
         },
         "512"},
        {"ResumeWithoutSeed",
         [](auto& r) {
           r.clear_sampling();
           r.add_resume()->add_token_ids(1);
         },
         "seed"},
        {"UnknownField",
         [](auto& r) { r.GetReflection()->MutableUnknownFields(&r)->AddVarint(999, 1); },
         "field number 999 of sluice.v1.GenerateRequest is unknown"},
        {"UnknownNestedField",
         [](auto& r) {
           auto& sampling = *r.mutable_sampling();
           sampling.GetReflection()->MutableUnknownFields(&sampling)->AddVarint(77, 1);
         },
         "field number 77 of sluice.v1.SamplingOptions"},
    }),
    [](const auto& info) { return info.param.name; });

TEST(BadRequests, RefusesAPromptThatTheKvCacheCanNeverHold) {
  const StartedPipeline tight = StartPipeline({.kv_cache_bytes = 256 << 10});
  v1::GenerateRequest request = GreedyRequest("", 5);
  for (int i = 0; i < 400; ++i) request.mutable_token_ids()->add_token_ids(5);
  const Generated refused = tight.client.Generate(request);
  EXPECT_EQ(refused.status.code(), absl::StatusCode::kInvalidArgument) << refused.status;
  EXPECT_TRUE(tight.client.Generate(GreedyRequest("The", 5)).status.ok());
}

TEST(BadRequests, SaysWhatIsWrongWithAModelOrTopology) {
  const std::vector<std::pair<InProcessOptions, std::string>> cases = {
      {{.model = "/nowhere"}, "/nowhere"},
      {{.model = ProjectPath("models/storyteller"), .num_ranks = 3}, "3"},
      {{.model = ProjectPath("models/storyteller"), .num_ranks = 16}, "16"},
      {{.model = ProjectPath("models/storyteller"), .num_stages = 9}, "9"},
      {{.model = ProjectPath("models/storyteller"), .num_stages = 0}, "--pp is 0"},
      {{.model = ProjectPath("models/storyteller"), .overrides = {"yarn,factor=0.5"}},
       "--rope_scaling: factor is 0.5"},
  };
  for (const auto& [options, part] : cases) {
    const auto pipeline = StartInProcess(options);
    ASSERT_FALSE(pipeline.ok());
    EXPECT_THAT(std::string(pipeline.status().message()), HasSubstr(part));
  }
}

}  // namespace
}  // namespace sluice::testing
