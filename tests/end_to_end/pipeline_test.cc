// The whole pipeline in this process, driven through the public API.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "clients/cli/in_process.h"
#include "services/model/model_config.h"
#include "tests/testing/generation_client.h"
#include "tests/testing/test_data.h"

namespace sluice {
namespace {

using ::sluice::testing::Generated;
using ::sluice::testing::GenerationClient;
using ::sluice::testing::GreedyRequest;
using ::sluice::testing::ProjectPath;
using ::sluice::testing::SampledRequest;

constexpr char kPrompt[] = "Once upon a time there was a king who";

struct Started {
  std::unique_ptr<InProcessPipeline> pipeline;
  GenerationClient client;
};

Started Start(InProcessOptions options = {}) {
  if (options.model.empty()) options.model = ProjectPath("models/storyteller");
  absl::StatusOr<std::unique_ptr<InProcessPipeline>> pipeline = StartInProcess(options);
  if (!pipeline.ok()) {
    ADD_FAILURE() << pipeline.status();
    std::abort();
  }
  auto channel = (*pipeline)->channel();
  return {*std::move(pipeline), GenerationClient(channel)};
}

// One pipeline for all tests that need nothing special.
const GenerationClient& SharedClient() {
  static const Started* const started = new Started(Start());
  return started->client;
}

TEST(Pipeline, GivesTheSameBitsForEveryNumberOfRanksAndStages) {
  const Generated greedy = SharedClient().Generate(GreedyRequest(kPrompt, 40));
  const Generated sampled = SharedClient().Generate(SampledRequest(kPrompt, 40, 7));
  ASSERT_TRUE(greedy.status.ok()) << greedy.status;
  ASSERT_EQ(greedy.first().tokens.size(), 40u);
  ASSERT_NE(greedy.first().text, sampled.first().text);
  for (const auto& [ranks, stages] :
       std::vector<std::pair<int, int>>{{2, 1}, {4, 1}, {1, 2}, {2, 2}, {1, 3}}) {
    const Started started = Start({.num_ranks = ranks, .num_stages = stages});
    EXPECT_EQ(started.client.Generate(GreedyRequest(kPrompt, 40)).first(), greedy.first())
        << ranks << " ranks, " << stages << " stages";
    EXPECT_EQ(started.client.Generate(SampledRequest(kPrompt, 40, 7)).first(), sampled.first())
        << ranks << " ranks, " << stages << " stages";
  }
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
  }
  return requests;
}

std::vector<Generated> GenerateAtOnce(const GenerationClient& client,
                                      const std::vector<v1::GenerateRequest>& requests) {
  std::vector<Generated> results(requests.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < requests.size(); ++i) {
    threads.emplace_back([&, i] { results[i] = client.Generate(requests[i]); });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

TEST(Pipeline, GivesThirtyTwoConcurrentStreamsTheBitsOfTheirSoloRuns) {
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

TEST(Pipeline, GivesTheSameBitsWhenBlocksRunOutAndSequencesArePreempted) {
  const std::vector<v1::GenerateRequest> requests = MixedRequests(16);
  // 8 layers of 2 x 4 heads x 32 dimensions in bf16 are 4 KiB a position: 16 blocks of 16
  // positions.
  const Started tight = Start({.kv_cache_bytes = 1 << 20});
  const absl::StatusOr<v1::GetStatusResponse> status = tight.client.GetStatus();
  ASSERT_TRUE(status.ok()) << status.status();
  ASSERT_LE(status->kv_cache().num_blocks(), 32);
  const std::vector<Generated> together = GenerateAtOnce(tight.client, requests);
  for (size_t i = 0; i < requests.size(); ++i) {
    ASSERT_TRUE(together[i].status.ok()) << together[i].status;
    EXPECT_EQ(together[i].first(), SharedClient().Generate(requests[i]).first()) << "request " << i;
  }
}

TEST(Pipeline, ReportsHowASequenceEnded) {
  const Generated generated = SharedClient().Generate(GreedyRequest(kPrompt, 5));
  ASSERT_TRUE(generated.status.ok()) << generated.status;
  EXPECT_EQ(generated.num_finished, 1);
  ASSERT_EQ(generated.finished.sequences_size(), 1);
  EXPECT_EQ(generated.finished.sequences(0).reason(), v1::FINISH_REASON_LENGTH);
  EXPECT_EQ(generated.finished.usage().num_generated_tokens(), 5);
  const auto tokens = SharedClient().Tokenize(kPrompt);
  ASSERT_TRUE(tokens.ok());
  EXPECT_EQ(generated.finished.usage().num_prompt_tokens(), tokens->num_tokens());
}

TEST(Pipeline, NeverShowsAnyPartOfAStopString) {
  const std::string whole = SharedClient().Generate(GreedyRequest(kPrompt, 60)).first().text;
  // Stop strings cut from the middle of what the model writes, across token boundaries.
  for (const size_t begin : {size_t{10}, whole.size() / 2, whole.size() - 20}) {
    for (const size_t length : {1, 3, 11}) {
      const std::string stop = whole.substr(begin, length);
      v1::GenerateRequest request = GreedyRequest(kPrompt, 60);
      request.mutable_stop()->add_stop_strings("never written: \x01");
      request.mutable_stop()->add_stop_strings(stop);
      std::string seen;
      const Generated stopped =
          SharedClient().Generate(request, absl::Seconds(60), [&](const v1::Chunk& chunk) {
            seen += chunk.text();
            EXPECT_FALSE(absl::StrContains(seen, stop));
            return true;
          });
      ASSERT_TRUE(stopped.status.ok()) << stopped.status;
      EXPECT_EQ(seen, whole.substr(0, whole.find(stop))) << "stop string \"" << stop << "\"";
      const v1::FinishedSequence& end = stopped.finished.sequences(0);
      EXPECT_EQ(end.reason(), v1::FINISH_REASON_STOP_STRING);
      EXPECT_EQ(end.stop_string(), stop);
      EXPECT_EQ(end.num_tokens(), static_cast<int>(stopped.first().tokens.size()));
      EXPECT_LT(end.num_tokens(), 61);

      request.mutable_stop()->set_include_stop_string(true);
      EXPECT_EQ(SharedClient().Generate(request).first().text,
                whole.substr(0, whole.find(stop) + stop.size()));
    }
  }
}

TEST(Pipeline, EndsAtAStopTokenWhoseTextIsNotShown) {
  const Generated whole = SharedClient().Generate(GreedyRequest(kPrompt, 30));
  const int32_t stop = whole.first().tokens[12];
  v1::GenerateRequest request = GreedyRequest(kPrompt, 30);
  request.mutable_stop()->add_stop_token_ids(stop);
  const Generated stopped = SharedClient().Generate(request);
  ASSERT_TRUE(stopped.status.ok()) << stopped.status;
  EXPECT_EQ(stopped.finished.sequences(0).reason(), v1::FINISH_REASON_STOP_TOKEN);
  EXPECT_EQ(stopped.finished.sequences(0).stop_token_id(), stop);
  EXPECT_EQ(stopped.first().tokens.back(), stop);
  EXPECT_TRUE(absl::StartsWith(whole.first().text, stopped.first().text));
  EXPECT_LE(stopped.first().tokens.size(), 13u);
}

TEST(Pipeline, GeneratesSeveralSequencesFromOnePrompt) {
  v1::GenerateRequest request = SampledRequest(kPrompt, 24, 5);
  const Generated alone = SharedClient().Generate(request);
  request.set_n(4);
  const Generated several = SharedClient().Generate(request);
  ASSERT_TRUE(several.status.ok()) << several.status;
  ASSERT_EQ(several.sequences.size(), 4u);
  EXPECT_EQ(several.sequences.at(0), alone.first());
  for (int i = 1; i < 4; ++i) {
    EXPECT_EQ(several.sequences.at(i).tokens.size(), 24u);
    EXPECT_NE(several.sequences.at(i).tokens, several.sequences.at(i - 1).tokens);
  }
  EXPECT_EQ(several.finished.usage().num_generated_tokens(), 96);
}

TEST(Pipeline, GoesOnWhereAnEarlierCallWasCutOff) {
  for (const size_t cut : {1, 9, 30}) {
    v1::GenerateRequest request = SampledRequest(kPrompt, 40, 11);
    std::string first_text;
    std::vector<int32_t> first_tokens;
    const Generated whole = SharedClient().Generate(request);
    SharedClient().Generate(request, absl::Seconds(60), [&](const v1::Chunk& chunk) {
      if (first_tokens.size() >= cut) return false;
      first_text += chunk.text();
      first_tokens.insert(first_tokens.end(), chunk.token_ids().begin(), chunk.token_ids().end());
      return true;
    });
    request.add_resume()->mutable_token_ids()->Add(first_tokens.begin(), first_tokens.end());
    const Generated rest = SharedClient().Generate(request);
    ASSERT_TRUE(rest.status.ok()) << rest.status;
    EXPECT_EQ(first_text + rest.first().text, whole.first().text) << "cut after " << cut;
    first_tokens.insert(first_tokens.end(), rest.first().tokens.begin(), rest.first().tokens.end());
    EXPECT_EQ(first_tokens, whole.first().tokens);
  }
}

TEST(Pipeline, ScoresATextWithTheLogProbabilitiesOfGeneratingIt) {
  v1::GenerateRequest request = SampledRequest(kPrompt, 30, 3);
  request.set_logprobs(2);
  const Generated generated = SharedClient().Generate(request);
  ASSERT_TRUE(generated.status.ok()) << generated.status;
  const auto prompt = SharedClient().Tokenize(kPrompt);
  ASSERT_TRUE(prompt.ok());
  v1::ScoreRequest score;
  *score.mutable_token_ids()->mutable_token_ids() = prompt->token_ids();
  score.mutable_token_ids()->mutable_token_ids()->Add(generated.first().tokens.begin(),
                                                      generated.first().tokens.end());
  const absl::StatusOr<v1::ScoreResponse> scored = SharedClient().Score(score);
  ASSERT_TRUE(scored.ok()) << scored.status();
  ASSERT_EQ(scored->logprobs_size(), prompt->num_tokens() + 30 - 1);
  for (int i = 0; i < 30; ++i) {
    // Prefill and decode give the same bits.
    EXPECT_EQ(scored->logprobs(prompt->num_tokens() - 1 + i).logprob(),
              generated.first().logprobs[i]);
  }
}

TEST(Pipeline, FreesEverythingWhenAClientGoesAway) {
  int chunks = 0;
  const Generated cancelled =
      SharedClient().Generate(GreedyRequest(kPrompt, 400), absl::Seconds(60),
                              [&](const v1::Chunk&) { return ++chunks < 3; });
  EXPECT_EQ(cancelled.status.code(), absl::StatusCode::kCancelled);
  const absl::Time deadline = absl::Now() + absl::Seconds(10);
  absl::StatusOr<v1::GetStatusResponse> status = SharedClient().GetStatus();
  while (status.ok() && status->kv_cache().num_used_blocks() > 0 && absl::Now() < deadline) {
    status = SharedClient().GetStatus();
  }
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_EQ(status->kv_cache().num_used_blocks(), 0);
  EXPECT_EQ(status->num_running_sequences() + status->num_waiting_sequences(), 0);
}

TEST(Pipeline, EndsACallAtItsDeadline) {
  v1::GenerateRequest request = GreedyRequest(kPrompt, 480);
  request.set_n(16);
  const Generated late = SharedClient().Generate(request, absl::Milliseconds(100));
  EXPECT_EQ(late.status.code(), absl::StatusCode::kDeadlineExceeded);
}

TEST(Pipeline, DescribesItsModel) {
  const absl::StatusOr<v1::GetModelResponse> model = SharedClient().GetModel();
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->name(), "storyteller");
  EXPECT_EQ(model->architecture(), "llama");
  EXPECT_EQ(model->vocabulary_size(), 4096);
  EXPECT_EQ(model->weights(), "bf16");
  EXPECT_TRUE(model->has_tokenizer());
  EXPECT_FALSE(model->has_chat_template());
}

// The storyteller with a chat template of its own.
class ChatFolder {
 public:
  ChatFolder() : path_(::testing::TempDir() + "with_template.XXXXXX") {
    EXPECT_NE(mkdtemp(path_.data()), nullptr);
    std::filesystem::copy(ProjectPath("models/storyteller"), path_,
                          std::filesystem::copy_options::recursive);
    std::ofstream(path_ + "/chat_template.jinja")
        << "{% for message in messages %}{{ message.role }}: {{ message.content }}<|endoftext|>\n"
           "{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}";
  }
  ~ChatFolder() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

TEST(Pipeline, TalksByTheModelsChatTemplate) {
  const ChatFolder folder;
  const Started started = Start({.model = folder.path()});
  EXPECT_TRUE(started.client.GetModel()->has_chat_template());

  v1::GenerateRequest chat = GreedyRequest("", 20);
  v1::ChatMessage& message = *chat.mutable_chat()->add_messages();
  message.set_role("user");
  message.set_content("Tell me of the <|endoftext|> king.");
  const Generated answer = started.client.Generate(chat);
  ASSERT_TRUE(answer.status.ok()) << answer.status;

  // The template's special token is one; the message's is text.
  v1::GenerateRequest spelled = GreedyRequest("", 20);
  v1::TokenIds& prompt = *spelled.mutable_token_ids();
  const auto add = [&](const std::string& text, bool parse_special) {
    v1::TokenizeRequest request;
    request.set_text(text);
    request.set_add_special_tokens(false);
    request.set_parse_special_tokens(parse_special);
    const auto tokens = started.client.Tokenize(request);
    ASSERT_TRUE(tokens.ok()) << tokens.status();
    prompt.mutable_token_ids()->MergeFrom(tokens->token_ids());
  };
  add("user: Tell me of the <|endoftext|> king.", /*parse_special=*/false);
  add("<|endoftext|>\nassistant:", /*parse_special=*/true);
  const Generated expected = started.client.Generate(spelled);
  ASSERT_TRUE(expected.status.ok()) << expected.status;
  EXPECT_EQ(answer.first(), expected.first());
  EXPECT_EQ(answer.finished.usage().num_prompt_tokens(), prompt.token_ids_size());
}

TEST(Pipeline, SaysWhereAChatTemplateFails) {
  const ChatFolder folder;
  const Started started = Start({.model = folder.path()});
  v1::GenerateRequest chat = GreedyRequest("", 5);
  chat.mutable_chat()->add_messages()->set_role("user");
  chat.mutable_chat()->set_template_name("tool_use");
  const Generated answer = started.client.Generate(chat);
  EXPECT_EQ(answer.status.code(), absl::StatusCode::kFailedPrecondition) << answer.status;
  EXPECT_THAT(std::string(answer.status.message()), ::testing::HasSubstr("tool_use"));
}

TEST(Pipeline, ServesTokenIdsOfAModelWithoutATokenizer) {
  const std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) / "no_tokenizer";
  std::filesystem::create_directories(folder);
  for (const char* file : {"config.json", "generation_config.json", "model.safetensors"}) {
    std::filesystem::copy_file(ProjectPath("models/storyteller") + "/" + file, folder / file,
                               std::filesystem::copy_options::overwrite_existing);
  }
  const Started started = Start({.model = folder.string()});
  const auto prompt = SharedClient().Tokenize(kPrompt);
  v1::GenerateRequest request = GreedyRequest("", 10);
  *request.mutable_token_ids()->mutable_token_ids() = prompt->token_ids();
  const Generated generated = started.client.Generate(request);
  ASSERT_TRUE(generated.status.ok()) << generated.status;
  EXPECT_EQ(generated.first().tokens, SharedClient().Generate(request).first().tokens);
  EXPECT_EQ(generated.first().text, "");
  EXPECT_EQ(started.client.Generate(GreedyRequest(kPrompt, 10)).status.code(),
            absl::StatusCode::kFailedPrecondition);
  request.mutable_stop()->add_stop_strings("x");
  EXPECT_EQ(started.client.Generate(request).status.code(), absl::StatusCode::kFailedPrecondition);
  std::filesystem::remove_all(folder);
}

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
  EXPECT_THAT(std::string(refused.status.message()), ::testing::HasSubstr(GetParam().message));
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

TEST(Pipeline, RefusesAPromptThatTheKvCacheCanNeverHold) {
  const Started tight = Start({.kv_cache_bytes = 256 << 10});
  v1::GenerateRequest request = GreedyRequest("", 5);
  for (int i = 0; i < 400; ++i) request.mutable_token_ids()->add_token_ids(5);
  const Generated refused = tight.client.Generate(request);
  EXPECT_EQ(refused.status.code(), absl::StatusCode::kInvalidArgument) << refused.status;
  EXPECT_TRUE(tight.client.Generate(GreedyRequest("The", 5)).status.ok());
}

// Beyond the model's own context every further token turns all positions otherwise, so each must
// come from a sequence that was computed as a whole: the same as from a prompt that is so long.
TEST(Pipeline, TokensOfALengthThatTurnsOtherwiseAreThoseOfALongerPrompt) {
  const std::string model = ProjectPath("models/storyteller");
  const int context = LoadModelConfig(model)->max_positions;
  const Started started = Start({.overrides = {"dynamic,factor=2"}, .num_ranks = 2});
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
  const Started unscaled = Start();
  EXPECT_EQ(unscaled.client.Generate(request).status.code(), absl::StatusCode::kInvalidArgument);
}

TEST(Pipeline, SaysWhatIsWrongWithAModelOrTopology) {
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
    EXPECT_THAT(std::string(pipeline.status().message()), ::testing::HasSubstr(part));
  }
}

}  // namespace
}  // namespace sluice
