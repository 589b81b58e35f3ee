// The whole pipeline in this process, driven through the public API.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/end_to_end/started_pipeline.h"
#include "tests/testing/test_data.h"

namespace sluice::testing {
namespace {

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

// Of a pipeline of its own: one that knows how long calls take refuses it at once.
TEST(Pipeline, EndsACallAtItsDeadline) {
  const StartedPipeline started = StartPipeline();
  v1::GenerateRequest request = GreedyRequest(kPrompt, 480);
  request.set_n(16);
  const Generated late = started.client.Generate(request, absl::Milliseconds(100));
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
  EXPECT_TRUE(model->has_chat_template());
}

TEST(Pipeline, ServesTokenIdsOfAModelWithoutATokenizer) {
  const std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) / "no_tokenizer";
  std::filesystem::create_directories(folder);
  for (const char* file : {"config.json", "generation_config.json", "model.safetensors"}) {
    std::filesystem::copy_file(ProjectPath("models/storyteller") + "/" + file, folder / file,
                               std::filesystem::copy_options::overwrite_existing);
  }
  const StartedPipeline started = StartPipeline({.model = folder.string()});
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

}  // namespace
}  // namespace sluice::testing
