// Drafts change no bit: whatever is proposed, under all options, and whatever happens meanwhile, a
// request has the tokens, text and log-probabilities that it has without.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <regex>
#include <string>
#include <vector>

#include "tests/end_to_end/started_pipeline.h"
#include "tests/services/model/model_folder.h"
#include "tests/testing/test_data.h"

namespace sluice::testing {
namespace {

using Random = std::mt19937;

bool Chance(Random& random, int percent) { return static_cast<int>(random() % 100) < percent; }

float Between(Random& random, float low, float high) {
  return low + (high - low) * static_cast<float>(random() % 1000) / 1000;
}

// Every option of sampling now and then, alone and beside others.
void AddOptions(Random& random, v1::SamplingOptions& sampling) {
  const auto now_and_then = [&random] { return Chance(random, 25); };
  sampling.set_temperature(now_and_then() ? 0 : Between(random, 0.2F, 1.2F));
  if (sampling.temperature() > 0 && now_and_then()) sampling.set_dynatemp_range(0.1F);
  if (now_and_then()) sampling.set_top_k(1 + static_cast<int>(random() % 50));
  if (now_and_then()) sampling.set_top_p(Between(random, 0.3F, 1));
  if (now_and_then()) sampling.set_min_p(Between(random, 0, 0.3F));
  if (now_and_then()) sampling.set_typical_p(Between(random, 0.3F, 1));
  if (now_and_then()) sampling.set_top_n_sigma(Between(random, 0.5F, 3));
  if (now_and_then()) sampling.set_xtc_probability(0.5F);
  if (now_and_then()) sampling.set_repetition_penalty(Between(random, 1, 1.5F));
  if (now_and_then()) sampling.set_presence_penalty(Between(random, -1, 1));
  if (now_and_then()) sampling.set_frequency_penalty(Between(random, -1, 1));
  if (now_and_then()) sampling.set_no_repeat_ngram_size(2 + static_cast<int>(random() % 3));
  if (now_and_then()) sampling.set_dry_multiplier(0.8F);
  if (now_and_then()) sampling.set_min_tokens(4);
  if (now_and_then()) {
    (*sampling.mutable_logit_bias())[static_cast<int>(random() % 200)] = Between(random, -5, 5);
  }
}

void AddConstraint(Random& random, v1::GenerateRequest& request) {
  switch (random() % 6) {
    case 0:
      request.mutable_constraint()->set_json_schema(
          R"({"type": "object", "required": ["identifier", "quantity"], "properties": {
              "identifier": {"enum": ["first-of-all", "second-of-all"]},
              "quantity": {"type": "integer", "minimum": 1, "maximum": 99}},
              "additionalProperties": false})");
      break;
    case 1:
      request.mutable_constraint()->set_regex(
          "(king|queen) of the (north|south)( and [a-z]{2,6})*");
      break;
    case 2:
      request.mutable_constraint()->set_grammar(
          "root ::= item (\", \" item){2,4} \".\"\nitem ::= \"the golden \" [a-z]{2,7}");
      break;
    default:
      return;
  }
  request.mutable_stop()->set_ignore_eos(false);
  request.mutable_sampling()->clear_min_tokens();
  request.mutable_sampling()->clear_no_repeat_ngram_size();
}

v1::GenerateRequest RandomRequest(Random& random) {
  const char* prompts[] = {kPrompt, "The wolf and the wolf and the wolf and the",
                           "\"Come here,\" said the old woman, and"};
  v1::GenerateRequest request =
      SampledRequest(prompts[random() % 3], 4 + static_cast<int>(random() % 40), random() % 1000);
  AddOptions(random, *request.mutable_sampling());
  AddConstraint(random, request);
  if (Chance(random, 50)) request.set_logprobs(static_cast<int>(random() % 4));
  if (request.has_logprobs() && Chance(random, 50)) {
    request.set_logprobs_mode(v1::LOGPROBS_MODE_PROCESSED);
  }
  if (Chance(random, 30)) request.mutable_stop()->add_stop_strings(" the");
  return request;
}

v1::GenerateRequest WithoutDrafts(v1::GenerateRequest request) {
  request.mutable_drafts()->set_decline(true);
  return request;
}

// Expects what was generated, but for some tokens; those that a rejected draft leaves behind must
// not be seen.
v1::GenerateRequest Expecting(v1::GenerateRequest request, const Generated& generated,
                              Random& random) {
  for (const int32_t token : generated.first().tokens) {
    request.mutable_drafts()->add_expected_token_ids(
        Chance(random, 75) ? token : static_cast<int32_t>(random() % 500));
  }
  if (Chance(random, 50)) {
    request.mutable_drafts()->set_max_tokens(1 + static_cast<int32_t>(random() % 6));
  }
  return request;
}

// Of a pipeline that computes every draft, whatever steps take on this machine.
const GenerationClient& DraftingClient() {
  static const StartedPipeline* const kPipeline =
      new StartedPipeline(StartPipeline({.draft_policy = DraftPolicy::kAlways}));
  return kPipeline->client;
}

struct Counts {
  int64_t drafted = 0;
  int64_t accepted = 0;
};

void Expect(const Generated& actual, const Generated& expected, const v1::GenerateRequest& request,
            Counts& counts) {
  ASSERT_EQ(actual.status, expected.status) << request.ShortDebugString();
  if (!expected.status.ok()) return;
  EXPECT_EQ(actual.first(), expected.first()) << request.ShortDebugString();
  counts.drafted += actual.finished.usage().num_drafted_tokens();
  counts.accepted += actual.finished.usage().num_accepted_draft_tokens();
  EXPECT_EQ(expected.finished.usage().num_drafted_tokens(), 0);
}

class Drafts : public ::testing::Test {
 protected:
  // What requests come to without drafts, and requests that expect that.
  void Prepare(int count) {
    for (int i = 0; i < count; ++i) {
      const v1::GenerateRequest request = RandomRequest(random_);
      plain_.push_back(SharedClient().Generate(WithoutDrafts(request)));
      const bool failed = plain_.back().sequences.empty();
      requests_.push_back(failed ? request : Expecting(request, plain_.back(), random_));
    }
  }

  void ExpectSameAtOnce(const GenerationClient& client) {
    const std::vector<Generated> together = GenerateAtOnce(client, requests_);
    for (size_t i = 0; i < requests_.size(); ++i) {
      ASSERT_NO_FATAL_FAILURE(Expect(together[i], plain_[i], requests_[i], counts_));
    }
  }

  Random random_{7};
  std::vector<v1::GenerateRequest> requests_;
  std::vector<Generated> plain_;
  Counts counts_;
};

TEST_F(Drafts, ChangeNoBitUnderAnyOptions) {
  Prepare(60);
  for (size_t i = 0; i < requests_.size(); ++i) {
    ASSERT_NO_FATAL_FAILURE(
        Expect(DraftingClient().Generate(requests_[i]), plain_[i], requests_[i], counts_));
  }
  EXPECT_GT(counts_.accepted, 20);
  EXPECT_GT(counts_.drafted, counts_.accepted);
}

TEST_F(Drafts, ChangeNoBitInABatch) {
  Prepare(24);
  ExpectSameAtOnce(DraftingClient());
  EXPECT_GT(counts_.accepted, 20);
}

// How much is drafted follows what steps take, and so the machine.
TEST_F(Drafts, ChangeNoBitWhereTheyPay) {
  Prepare(24);
  ExpectSameAtOnce(SharedClient());
}

TEST_F(Drafts, ChangeNoBitOnTwoRanksAndStages) {
  Prepare(12);
  const StartedPipeline split =
      StartPipeline({.num_ranks = 2, .num_stages = 2, .draft_policy = DraftPolicy::kAlways});
  ExpectSameAtOnce(split.client);
  for (size_t i = 0; i < requests_.size(); ++i) {
    ASSERT_NO_FATAL_FAILURE(
        Expect(split.client.Generate(requests_[i]), plain_[i], requests_[i], counts_));
  }
  EXPECT_GT(counts_.accepted, 0);
}

TEST_F(Drafts, ChangeNoBitWhereBlocksRunOut) {
  Prepare(16);
  const StartedPipeline tight =
      StartPipeline({.kv_cache_bytes = 1 << 20, .draft_policy = DraftPolicy::kAlways});
  ExpectSameAtOnce(tight.client);
}

TEST_F(Drafts, WhatAGrammarForcesIsComputedAtOnce) {
  const StartedPipeline unguessed = StartPipeline({.draft = DraftMode::kNone});
  v1::GenerateRequest request = SampledRequest(kPrompt, 100, 3);
  request.mutable_stop()->set_ignore_eos(false);
  request.mutable_constraint()->set_regex("abcdefghijklmnopqrstuvwxyz0123456789 or [ab]");
  request.set_logprobs(2);
  const Generated stepwise = unguessed.client.Generate(WithoutDrafts(request));
  const Generated at_once = unguessed.client.Generate(request);
  Counts counts;
  ASSERT_NO_FATAL_FAILURE(Expect(at_once, stepwise, request, counts));
  const auto num_tokens = static_cast<int64_t>(at_once.first().tokens.size());
  EXPECT_GT(counts.drafted, num_tokens / 2);
  EXPECT_EQ(counts.accepted, counts.drafted);
}

TEST_F(Drafts, WhatRepeatsItsPromptIsDraftedFromIt) {
  std::string prompt;
  for (int i = 0; i < 6; ++i) prompt += "The king had three sons. The queen had three daughters. ";
  const v1::GenerateRequest request = GreedyRequest(prompt, 120);
  const Generated plain = SharedClient().Generate(WithoutDrafts(request));
  Counts counts;
  ASSERT_NO_FATAL_FAILURE(Expect(DraftingClient().Generate(request), plain, request, counts));
  EXPECT_GT(counts.accepted, 0);
}

// ---- A model that drafts ----

// Always, whether or not that pays.
InProcessOptions DraftedBy(const std::string& model) {
  return {.num_ranks = 2,
          .num_stages = 2,
          .draft = DraftMode::kNone,
          .draft_policy = DraftPolicy::kAlways,
          .draft_model = InProcessDraftModel{.model = model, .kv_cache_bytes = 32 << 20}};
}

// The storyteller's first two layers and its head: fast, and mostly wrong.
void WriteShallowStoryteller(const TempFolder& folder) {
  const std::filesystem::path whole = ProjectPath("models/storyteller");
  for (const auto& entry : std::filesystem::directory_iterator(whole)) {
    if (entry.path().filename() == "config.json") continue;
    std::filesystem::create_symlink(entry.path(), folder.PathOf(entry.path().filename()));
  }
  std::ifstream file(whole / "config.json");
  const std::string config{std::istreambuf_iterator<char>(file), {}};
  folder.Write("config.json", std::regex_replace(config, std::regex("\"num_hidden_layers\": 8"),
                                                 "\"num_hidden_layers\": 2"));
}

// Wants no guesses but the model's and what is forced.
v1::GenerateRequest ExpectingNothing(v1::GenerateRequest request) {
  request.mutable_drafts()->clear_expected_token_ids();
  return request;
}

TEST_F(Drafts, OfTheModelItselfAreRightUnderAnyOptions) {
  const StartedPipeline drafted = StartPipeline(DraftedBy(ProjectPath("models/storyteller")));
  Prepare(40);
  for (size_t i = 0; i < requests_.size(); ++i) {
    ASSERT_NO_FATAL_FAILURE(Expect(drafted.client.Generate(ExpectingNothing(requests_[i])),
                                   plain_[i], requests_[i], counts_));
  }
  const auto status = drafted.client.GetStatus();
  ASSERT_TRUE(status.ok());
  EXPECT_TRUE(status->draft_model().ready());
  EXPECT_GT(status->draft_model().num_proposed_tokens(), 0u);
  EXPECT_GT(counts_.accepted, 0);
  EXPECT_GE(counts_.accepted, counts_.drafted * 9 / 10);
}

TEST_F(Drafts, OfAModelThatIsMostlyWrongChangeNoBit) {
  const TempFolder folder;
  WriteShallowStoryteller(folder);
  const StartedPipeline drafted = StartPipeline(DraftedBy(folder.path()));
  Prepare(24);
  ExpectSameAtOnce(drafted.client);
  for (size_t i = 0; i < requests_.size(); ++i) {
    ASSERT_NO_FATAL_FAILURE(Expect(drafted.client.Generate(ExpectingNothing(requests_[i])),
                                   plain_[i], requests_[i], counts_));
  }
  EXPECT_GT(drafted.client.GetStatus()->draft_model().num_proposed_tokens(), 0u);
}

TEST_F(Drafts, OfAModelChangeNoBitOfSeveralSequencesAndOfBeams) {
  const StartedPipeline drafted = StartPipeline(DraftedBy(ProjectPath("models/storyteller")));
  v1::GenerateRequest several = SampledRequest(kPrompt, 60, 5);
  several.set_n(3);
  v1::GenerateRequest beams = GreedyRequest(kPrompt, 30);
  beams.clear_sampling();
  beams.mutable_beams()->set_beam_width(3);
  beams.mutable_beams()->set_num_return(3);
  for (const v1::GenerateRequest& request : {several, beams, several}) {
    const Generated plain = SharedClient().Generate(WithoutDrafts(request));
    const Generated actual = drafted.client.Generate(request);
    ASSERT_TRUE(plain.status.ok() && actual.status.ok()) << plain.status << actual.status;
    EXPECT_EQ(actual.sequences, plain.sequences);
  }
}

TEST_F(Drafts, OfAModelWithRoomForFewChangeNoBit) {
  InProcessOptions options = DraftedBy(ProjectPath("models/storyteller"));
  options.draft_model->kv_cache_bytes = 1 << 20;
  const StartedPipeline drafted = StartPipeline(options);
  Prepare(16);
  ExpectSameAtOnce(drafted.client);
}

TEST_F(Drafts, StatusSaysWhatWasDraftedAndWhatWasRight) {
  Prepare(4);
  const auto before = SharedClient().GetStatus();
  ExpectSameAtOnce(SharedClient());
  const auto after = SharedClient().GetStatus();
  ASSERT_TRUE(before.ok() && after.ok());
  EXPECT_GE(static_cast<int64_t>(after->num_drafted_tokens() - before->num_drafted_tokens()),
            counts_.drafted);
  EXPECT_GE(after->num_drafted_tokens(), after->num_accepted_draft_tokens());
}

TEST_F(Drafts, RefusesOptionsThatMakeNoSense) {
  const auto refusal = [](const auto& set) {
    v1::GenerateRequest request = GreedyRequest(kPrompt, 2);
    set(*request.mutable_drafts());
    const absl::Status status = SharedClient().Generate(request).status;
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  using ::testing::HasSubstr;
  EXPECT_THAT(refusal([](auto& drafts) { drafts.set_max_tokens(33); }),
              HasSubstr("drafts.max_tokens is 33; accepted: 1 to 32"));
  EXPECT_THAT(refusal([](auto& drafts) { drafts.add_expected_token_ids(-1); }),
              HasSubstr("drafts.expected_token_ids[0] is -1"));
  EXPECT_THAT(refusal([](auto& drafts) {
                drafts.set_decline(true);
                drafts.set_max_tokens(2);
              }),
              HasSubstr("drafts.decline contradicts"));
}

}  // namespace
}  // namespace sluice::testing
