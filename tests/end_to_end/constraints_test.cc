// Texts that keep what the request says, through the whole pipeline: every kind, the same bits
// whatever happens around them, and errors that name what is wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "services/constraint/engine/automaton.h"
#include "services/sampler/constraints/constraint_compiler.h"
#include "tests/end_to_end/started_pipeline.h"
#include "tests/services/constraint/grammar_text.h"

namespace sluice::testing {
namespace {

using ::testing::HasSubstr;

v1::GenerateRequest Constrained(const v1::Constraint& constraint, uint64_t seed,
                                int max_tokens = 60) {
  v1::GenerateRequest request = SampledRequest(kPrompt, max_tokens, seed);
  request.mutable_stop()->set_ignore_eos(false);
  *request.mutable_constraint() = constraint;
  return request;
}

v1::Constraint Schema(const std::string& schema) {
  v1::Constraint constraint;
  constraint.set_json_schema(schema);
  return constraint;
}

// One of every kind; short ones, so that most texts finish.
std::vector<v1::Constraint> Kinds() {
  std::vector<v1::Constraint> kinds(5);
  kinds[0] = Schema(R"({"type": "object", "required": ["name", "age", "old"], "properties": {
      "name": {"type": "string", "maxLength": 12}, "age": {"type": "integer", "minimum": 1,
      "maximum": 99}, "old": {"type": "boolean"}}, "additionalProperties": false})");
  kinds[1].set_regex("[A-Z][a-z]{2,8}( [a-z]{1,6}){0,4}\\.");
  kinds[2].set_grammar("root ::= word (\", \" word){1,3} \"!\"\nword ::= [a-zé]{2,7}");
  for (const char* choice : {"yes", "no", "a king", "a king of old"}) kinds[3].add_choices(choice);
  v1::StructuralTags& tags = *kinds[4].mutable_structural_tags();
  tags.set_min_tags(1);
  tags.set_max_tags(1);
  v1::StructuralTag& tag = *tags.add_tags();
  tag.set_begin(" ");
  *tag.mutable_content() = Schema(R"({"type": "array", "items": {"type": "integer", "minimum": 0,
      "maximum": 9}, "minItems": 1, "maxItems": 3})");
  return kinds;
}

bool Keeps(const v1::Constraint& constraint, const std::string& text) {
  const auto grammar = CompileConstraint(constraint);
  EXPECT_TRUE(grammar.ok()) << grammar.status();
  return grammar.ok() && Accepts(**grammar, text);
}

bool IsWhole(const Generated& generated, int sequence = 0) {
  return generated.finished.sequences(sequence).reason() == v1::FINISH_REASON_STOP_TOKEN;
}

TEST(Constraints, EveryTextThatFinishesKeepsThem) {
  int num_whole = 0;
  for (const v1::Constraint& constraint : Kinds()) {
    for (uint64_t seed = 1; seed <= 4; ++seed) {
      v1::GenerateRequest request = Constrained(constraint, seed);
      request.set_n(2);
      const Generated generated = SharedClient().Generate(request);
      ASSERT_TRUE(generated.status.ok()) << generated.status << constraint.ShortDebugString();
      for (const auto& [index, sequence] : generated.sequences) {
        if (!IsWhole(generated, index)) continue;
        ++num_whole;
        EXPECT_TRUE(Keeps(constraint, sequence.text)) << constraint.ShortDebugString() << "\n"
                                                      << sequence.text;
      }
    }
  }
  EXPECT_GE(num_whole, 20);  // of 40
}

TEST(Constraints, HoldBesideOtherOptions) {
  v1::GenerateRequest request = Constrained(Kinds()[3], 1);
  request.mutable_sampling()->set_repetition_penalty(1.3F);
  request.mutable_sampling()->set_top_p(0.9F);
  request.set_logprobs(3);
  request.set_logprobs_mode(v1::LOGPROBS_MODE_PROCESSED);
  const Generated generated = SharedClient().Generate(request);
  ASSERT_TRUE(generated.status.ok()) << generated.status;
  EXPECT_TRUE(Keeps(Kinds()[3], generated.first().text)) << generated.first().text;
  request = Constrained(Kinds()[3], 1);
  request.mutable_sampling()->set_temperature(0);
  const Generated greedy = SharedClient().Generate(request);
  EXPECT_TRUE(Keeps(Kinds()[3], greedy.first().text)) << greedy.first().text;
}

// Each mask is a walk through hundreds of states that nobody has met: rows wait for it, and sit out.
v1::Constraint Costly() {
  v1::Constraint constraint;
  constraint.set_regex(".*e.{12}t.*|.*a.{12}o.*");
  return constraint;
}

TEST(Constraints, WhoseMasksTakeLongGiveTheSameBitsAndLoseNothing) {
  const uint64_t epoch = SharedClient().GetStatus()->epoch();
  std::vector<v1::GenerateRequest> requests;
  for (int i = 0; i < 3; ++i) requests.push_back(Constrained(Costly(), 300 + i, 12));
  requests.push_back(SampledRequest(kPrompt, 40, 3));
  const std::vector<Generated> together = GenerateAtOnce(SharedClient(), requests);
  for (size_t i = 0; i < requests.size(); ++i) {
    const Generated alone = SharedClient().Generate(requests[i]);
    ASSERT_TRUE(alone.status.ok()) << alone.status;
    EXPECT_EQ(together[i].first(), alone.first()) << "request " << i;
  }
  EXPECT_EQ(SharedClient().GetStatus()->epoch(), epoch) << "the replica was lost";
}

TEST(Constraints, ThatTakeTooMuchEndTheirOwnRequestAlone) {
  const uint64_t epoch = SharedClient().GetStatus()->epoch();
  std::vector<v1::GenerateRequest> requests;
  for (int i = 0; i < 2; ++i) {
    requests.push_back(
        Constrained(Schema(R"({"type": "string", "pattern": "^(a|b|[^x]){0,60}", "not": {"anyOf": [
                   {"pattern": "e.{60}t"}, {"pattern": "a.{60}o"}, {"pattern": "n.{60}i"}]}})"),
                    400 + i, 6));
  }
  requests.push_back(SampledRequest(kPrompt, 40, 3));
  const std::vector<Generated> together = GenerateAtOnce(SharedClient(), requests);
  for (const Generated& generated : together) {
    EXPECT_TRUE(generated.status.ok() || absl::IsResourceExhausted(generated.status))
        << generated.status;
  }
  EXPECT_TRUE(together.back().status.ok()) << together.back().status;
  EXPECT_EQ(SharedClient().GetStatus()->epoch(), epoch) << "the replica was lost";
}

TEST(Constraints, GiveTheSameBitsAmongOthersAndWhenPreempted) {
  std::vector<v1::GenerateRequest> requests;
  const std::vector<v1::Constraint> kinds = Kinds();
  for (int i = 0; i < 15; ++i) {
    requests.push_back(Constrained(kinds[i % kinds.size()], 100 + i));
    requests.back().set_logprobs(0);
  }
  requests.push_back(SampledRequest(kPrompt, 40, 3));  // a free one
  const std::vector<Generated> together = GenerateAtOnce(SharedClient(), requests);
  const StartedPipeline tight = StartPipeline({.num_ranks = 2, .kv_cache_bytes = 1 << 20});
  const std::vector<Generated> preempted = GenerateAtOnce(tight.client, requests);
  for (size_t i = 0; i < requests.size(); ++i) {
    const Generated alone = SharedClient().Generate(requests[i]);
    ASSERT_TRUE(alone.status.ok()) << alone.status;
    EXPECT_EQ(together[i].first(), alone.first()) << "request " << i;
    EXPECT_EQ(preempted[i].first(), alone.first()) << "request " << i;
  }
}

TEST(Constraints, GoOnWhereAnEarlierCallEnded) {
  const v1::GenerateRequest request = Constrained(Kinds()[0], 5);
  const Generated whole = SharedClient().Generate(request);
  ASSERT_TRUE(whole.status.ok()) << whole.status;
  const std::vector<int32_t>& tokens = whole.first().tokens;
  ASSERT_GT(tokens.size(), 4u);
  v1::GenerateRequest resumed = request;
  resumed.add_resume()->mutable_token_ids()->Add(tokens.begin(), tokens.begin() + 4);
  const Generated rest = SharedClient().Generate(resumed);
  ASSERT_TRUE(rest.status.ok()) << rest.status;
  EXPECT_EQ(rest.first().tokens, std::vector<int32_t>(tokens.begin() + 4, tokens.end()));
  resumed.mutable_resume(0)->set_token_ids(0, 300);  // as if the text began otherwise
  const absl::Status refused = SharedClient().Generate(resumed).status;
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("does not keep the constraint"));
}

TEST(Constraints, AreRefusedByName) {
  const auto refusal = [](const v1::Constraint& constraint, absl::StatusCode code) {
    const absl::Status status = SharedClient().Generate(Constrained(constraint, 1)).status;
    EXPECT_EQ(status.code(), code) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(refusal(Schema("{"), absl::StatusCode::kInvalidArgument),
              HasSubstr("constraint: json_schema: "));
  EXPECT_THAT(refusal(Schema(R"({"type": "array", "uniqueItems": true})"),
                      absl::StatusCode::kUnimplemented),
              HasSubstr("uniqueItems"));
  v1::Constraint two = Schema("true");
  two.set_regex("a");
  EXPECT_THAT(refusal(two, absl::StatusCode::kInvalidArgument),
              HasSubstr("constraint.json_schema and constraint.regex contradict each other"));
  v1::GenerateRequest endless = Constrained(Kinds()[0], 1);
  endless.mutable_stop()->set_ignore_eos(true);
  EXPECT_THAT(std::string(SharedClient().Generate(endless).status.message()),
              HasSubstr("stop.ignore_eos and constraint contradict"));
  v1::GenerateRequest nothing_left = Constrained(Kinds()[3], 1);
  nothing_left.mutable_sampling()->set_min_tokens(60);
  EXPECT_EQ(SharedClient().Generate(nothing_left).status.code(),
            absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace sluice::testing
