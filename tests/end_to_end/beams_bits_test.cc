// Beams, and what else is chosen among several texts, through the whole pipeline.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "tests/end_to_end/started_pipeline.h"

namespace sluice::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

v1::GenerateRequest BeamRequest(const std::string& prompt, int width, int max_tokens) {
  v1::GenerateRequest request;
  request.set_text(prompt);
  request.set_max_tokens(max_tokens);
  request.set_logprobs(0);
  request.mutable_stop()->set_ignore_eos(true);
  request.mutable_beams()->set_beam_width(width);
  request.mutable_beams()->set_num_return(width);
  return request;
}

std::vector<v1::GenerateRequest> BeamRequests() {
  std::vector<v1::GenerateRequest> requests = {
      BeamRequest(kPrompt, 4, 40), BeamRequest("The wolf", 6, 30),
      BeamRequest("\"Come here,\" said the old woman, and", 3, 50), BeamRequest(kPrompt, 5, 30)};
  requests[1].mutable_sampling()->set_repetition_penalty(1.3F);
  requests[1].mutable_sampling()->set_no_repeat_ngram_size(3);
  requests[2].mutable_stop()->add_stop_strings(" and");
  requests[3].mutable_beams()->set_stochastic(true);
  requests[3].mutable_sampling()->set_seed(11);
  return requests;
}

void ExpectSame(const Generated& got, const Generated& expected, const std::string& what) {
  ASSERT_TRUE(got.status.ok()) << what << ": " << got.status;
  EXPECT_EQ(got.sequences, expected.sequences) << what;
  ASSERT_EQ(got.finished.sequences_size(), expected.finished.sequences_size()) << what;
  for (int i = 0; i < got.finished.sequences_size(); ++i) {
    EXPECT_EQ(got.finished.sequences(i).SerializeAsString(),
              expected.finished.sequences(i).SerializeAsString())
        << what;
  }
}

TEST(Beams, AreTheSameBesideOthersAndWithoutRoom) {
  const std::vector<v1::GenerateRequest> requests = BeamRequests();
  std::vector<Generated> alone;
  for (const v1::GenerateRequest& request : requests) {
    alone.push_back(SharedClient().Generate(request));
    ASSERT_TRUE(alone.back().status.ok()) << alone.back().status;
    EXPECT_EQ(std::ssize(alone.back().sequences), request.beams().num_return());
  }
  // 8 layers of 2 x 4 heads x 32 dimensions in bf16 are 4 KiB a position: 16 blocks of 16 positions.
  const StartedPipeline tight = StartPipeline({.kv_cache_bytes = 1 << 20});
  const StartedPipeline split = StartPipeline({.num_ranks = 2, .num_stages = 2});
  for (const GenerationClient* client : {&SharedClient(), &tight.client, &split.client}) {
    const std::vector<Generated> together = GenerateAtOnce(*client, requests);
    for (size_t i = 0; i < requests.size(); ++i) {
      ExpectSame(together[i], alone[i], "request " + std::to_string(i));
    }
  }
  const absl::StatusOr<v1::GetStatusResponse> status = tight.client.GetStatus();
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_GT(status->num_preemptions(), 0u);
}

// What is returned has the log-probabilities that the model gives it.
TEST(Beams, AreScoredByTheLogProbabilitiesOfTheirTokens) {
  v1::GenerateRequest request = BeamRequest(kPrompt, 6, 20);
  request.mutable_beams()->set_length_penalty(0.5F);
  const Generated found = SharedClient().Generate(request);
  ASSERT_TRUE(found.status.ok()) << found.status;
  v1::TokenizeRequest prompt;
  prompt.set_text(kPrompt);
  const auto prompt_ids = SharedClient().Tokenize(prompt);
  ASSERT_TRUE(prompt_ids.ok());
  double last = 0;
  for (int i = 0; i < 6; ++i) {
    const GeneratedSequence& sequence = found.sequences.at(i);
    v1::ScoreRequest score;
    *score.mutable_token_ids()->mutable_token_ids() = prompt_ids->token_ids();
    score.mutable_token_ids()->mutable_token_ids()->Add(sequence.tokens.begin(),
                                                        sequence.tokens.end());
    const auto scored = SharedClient().Score(score);
    ASSERT_TRUE(scored.ok()) << scored.status();
    double sum = 0;
    for (size_t t = 0; t < sequence.tokens.size(); ++t) {
      EXPECT_EQ(sequence.logprobs[t],
                scored->logprobs(static_cast<int>(t) + prompt_ids->token_ids_size() - 1).logprob());
      sum += sequence.logprobs[t];
    }
    const v1::FinishedSequence& end = found.finished.sequences(i);
    EXPECT_EQ(end.sum_logprob(), sum);
    EXPECT_DOUBLE_EQ(end.score(), sum / std::sqrt(20.0));
    if (i > 0) {
      EXPECT_LE(end.score(), last);
    }
    last = end.score();
  }
}

TEST(Beams, KeepAConstraint) {
  v1::GenerateRequest request = BeamRequest(kPrompt, 4, 30);
  request.mutable_stop()->set_ignore_eos(false);
  for (const char* choice : {" lived", " had a daughter", " was rich"}) {
    request.mutable_constraint()->add_choices(choice);
  }
  const Generated found = SharedClient().Generate(request);
  ASSERT_TRUE(found.status.ok()) << found.status;
  std::vector<std::string> texts;
  for (const auto& [index, sequence] : found.sequences) texts.push_back(sequence.text);
  std::sort(texts.begin(), texts.end());
  texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
  EXPECT_THAT(texts, ::testing::IsSubsetOf({" lived", " had a daughter", " was rich"}));
  EXPECT_GE(texts.size(), 2u);
}

TEST(Beams, SendWhatIsSettledBeforeTheEnd) {
  int early = 0;
  const Generated found = SharedClient().Generate(
      BeamRequest(kPrompt, 3, 60), absl::Seconds(60), [&](const v1::Chunk& chunk) {
        early += chunk.sequence() == 2 && chunk.token_ids_size() < 30;
        return true;
      });
  ASSERT_TRUE(found.status.ok()) << found.status;
  EXPECT_GT(early, 2);
}

TEST(BestOf, ReturnsTheBestOfWhatIsDrawn) {
  v1::GenerateRequest request = SampledRequest(kPrompt, 12, 5);
  request.set_logprobs(0);
  request.set_n(6);
  const Generated all = SharedClient().Generate(request);
  request.set_n(2);
  request.set_best_of(6);
  const Generated best = SharedClient().Generate(request);
  ASSERT_TRUE(all.status.ok() && best.status.ok()) << best.status;
  const auto sum = [](const GeneratedSequence& sequence) {
    return std::accumulate(sequence.logprobs.begin(), sequence.logprobs.end(), 0.0);
  };
  std::vector<GeneratedSequence> expected;
  for (const auto& [index, sequence] : all.sequences) expected.push_back(sequence);
  std::stable_sort(expected.begin(), expected.end(),
                   [&](const auto& a, const auto& b) { return sum(a) > sum(b); });
  ASSERT_EQ(best.sequences.size(), 2u);
  EXPECT_EQ(best.sequences.at(0), expected[0]);
  EXPECT_EQ(best.sequences.at(1), expected[1]);
  EXPECT_EQ(best.finished.usage().num_generated_tokens(), 72);
  // A client that has the first is sent the second.
  const std::vector<int32_t>& first = best.sequences.at(0).tokens;
  request.add_resume()->mutable_token_ids()->Add(first.begin(), first.end());
  const Generated rest = SharedClient().Generate(request);
  ASSERT_TRUE(rest.status.ok()) << rest.status;
  EXPECT_EQ(rest.sequences.count(0), 0u);
  EXPECT_EQ(rest.sequences.at(1), expected[1]);
  EXPECT_EQ(rest.finished.sequences_size(), 2);
  request.mutable_resume(0)->mutable_token_ids()->RemoveLast();
  EXPECT_EQ(SharedClient().Generate(request).status.code(), absl::StatusCode::kInvalidArgument);
}

TEST(PromptLogprobs, AreThoseOfScoreAndComeFirst) {
  v1::GenerateRequest request = GreedyRequest(kPrompt, 5);
  request.set_prompt_logprobs(2);
  std::vector<float> logprobs;
  std::vector<int32_t> tokens;
  bool generated = false;
  const Generated found =
      SharedClient().Generate(request, absl::Seconds(60), [&](const v1::Chunk& chunk) {
        EXPECT_FALSE(generated && chunk.prompt_token_ids_size() > 0);
        generated = generated || chunk.token_ids_size() > 0;
        for (int i = 0; i < chunk.prompt_token_ids_size(); ++i) {
          tokens.push_back(chunk.prompt_token_ids(i));
          logprobs.push_back(chunk.prompt_logprobs(i).logprob());
          EXPECT_EQ(chunk.prompt_logprobs(i).top_size(), 2);
        }
        return true;
      });
  ASSERT_TRUE(found.status.ok()) << found.status;
  EXPECT_EQ(found.first(), SharedClient().Generate(GreedyRequest(kPrompt, 5)).first());
  v1::ScoreRequest score;
  score.set_text(kPrompt);
  const auto scored = SharedClient().Score(score);
  ASSERT_TRUE(scored.ok()) << scored.status();
  ASSERT_EQ(std::ssize(logprobs), scored->logprobs_size());
  for (int i = 0; i < scored->logprobs_size(); ++i) {
    EXPECT_EQ(tokens[i], scored->token_ids(i + 1));
    EXPECT_EQ(logprobs[i], scored->logprobs(i).logprob());
  }
}

TEST(BadWords, OfTextsDoNotOccur) {
  v1::GenerateRequest request = GreedyRequest(kPrompt, 30);
  const std::string free = SharedClient().Generate(request).first().text;
  const size_t begin = free.find_first_of("abcdefghijklmnopqrstuvwxyz");
  const std::string word = free.substr(begin, free.find_first_of(" ,.", begin) - begin);
  ASSERT_GE(word.size(), 2u);
  request.add_bad_words(word);
  const Generated found = SharedClient().Generate(request);
  ASSERT_TRUE(found.status.ok()) << found.status;
  EXPECT_THAT(found.first().text, Not(HasSubstr(" " + word + " ")));
  EXPECT_NE(found.first().text, free);
}

TEST(DryBreakers, EndRunsAsTheirTokensDo) {
  v1::GenerateRequest request = GreedyRequest("One two three. One two three. One two", 20);
  request.mutable_sampling()->set_dry_multiplier(5);
  request.mutable_sampling()->set_dry_allowed_length(1);
  v1::GenerateRequest by_id = request;
  v1::TokenizeRequest breaker;
  breaker.set_text("a.");
  breaker.set_add_special_tokens(false);
  const auto tokens = SharedClient().Tokenize(breaker);
  ASSERT_TRUE(tokens.ok());
  by_id.mutable_sampling()->add_dry_breaker_token_ids(*tokens->token_ids().rbegin());
  request.add_dry_breakers(".");
  const Generated expected = SharedClient().Generate(by_id);
  const Generated found = SharedClient().Generate(request);
  ASSERT_TRUE(found.status.ok()) << found.status;
  EXPECT_EQ(found.first(), expected.first());
}

TEST(Score, OfManyTextsIsThatOfEachAndComputesWhatTheyShareOnce) {
  const StartedPipeline started = StartPipeline();
  const std::string shared =
      "In a far country, beyond the seven mountains and the seven seas, there lived a miller with "
      "three sons. The eldest was clever, the second was strong, and the youngest";
  v1::ScoreRequest many;
  many.set_top(2);
  for (const char* end : {" was kind.", " had nothing at all.", " was kind.", ""}) {
    many.add_inputs()->set_text(shared + end);
  }
  many.add_inputs()->set_text("A cat.");
  const auto scored = started.client.Score(many);
  ASSERT_TRUE(scored.ok()) << scored.status();
  ASSERT_EQ(scored->scores_size(), 5);
  const auto status = started.client.GetStatus();
  ASSERT_TRUE(status.ok());
  int num_tokens = 0;
  for (int i = 0; i < 5; ++i) {
    v1::ScoreRequest one;
    one.set_top(2);
    one.set_text(many.inputs(i).text());
    const auto alone = started.client.Score(one);
    ASSERT_TRUE(alone.ok()) << alone.status();
    const v1::ScoredText& text = scored->scores(i);
    num_tokens += text.token_ids_size();
    ASSERT_EQ(text.logprobs_size(), alone->logprobs_size());
    for (int t = 0; t < text.logprobs_size(); ++t) {
      EXPECT_EQ(text.logprobs(t).SerializeAsString(), alone->logprobs(t).SerializeAsString());
    }
    EXPECT_EQ(text.sum_logprob(), alone->sum_logprob());
    EXPECT_EQ(text.perplexity(), alone->perplexity());
    EXPECT_NEAR(text.sum_logprob(), -text.mean_nll() * text.logprobs_size(), 1e-9);
  }
  // Of 5 texts, two are an earlier one or its beginning, and a third computes its end alone.
  EXPECT_LT(status->num_computed_positions(), num_tokens / 2);
}

}  // namespace
}  // namespace sluice::testing
