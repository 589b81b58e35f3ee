// `sluice generate` against a service that says what the test tells it to: what it sends and prints.
#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "clients/cli/json.h"
#include "tests/clients/cli/story.h"
#include "tests/services/model/model_folder.h"

namespace sluice::testing {
namespace {

using ::google::protobuf::util::MessageDifferencer;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<Json> Lines(const std::string& text) {
  std::vector<Json> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(Json::parse(line));
  return lines;
}

TEST(GenerateTest, PrintsTheTextAloneOnStdout) {
  FakePipeline pipeline(Saying(Story()));
  FakeEnvironment fake;
  EXPECT_EQ(fake.Run({"generate", "--endpoint", pipeline.endpoint(), "Once"}), 0);
  EXPECT_EQ(fake.out.str(), "there was\n");
  EXPECT_THAT(fake.err.str(), HasSubstr("4 tokens in "));
  EXPECT_THAT(fake.err.str(), HasSubstr("; prompt of 3 tokens; seed 7\n"));
}

TEST(GenerateTest, EndsTheLineOnATerminalToo) {
  FakePipeline pipeline(Saying(Story()));
  FakeEnvironment fake;
  fake.environment.out_is_terminal = true;
  EXPECT_EQ(fake.Run({"generate", "--endpoint", pipeline.endpoint(), "Once"}), 0);
  EXPECT_EQ(fake.out.str(), "there was\n");
}

TEST(GenerateTest, PrintsTokenIdsForAModelWithoutTokenizer) {
  FakeAnswers answers =
      Saying({TextEvent(0, "", {5}), TextEvent(0, "", {6, 7}), FinishedEvent(1, 3)});
  answers.model.set_has_tokenizer(false);
  FakePipeline pipeline(answers);
  FakeEnvironment fake;
  EXPECT_EQ(fake.Run({"generate", "--endpoint", pipeline.endpoint(), "--token_ids", "1,2"}), 0);
  EXPECT_EQ(fake.out.str(), "5 6 7\n");
}

TEST(GenerateTest, PrintsSeveralSequencesOneAfterTheOther) {
  FakePipeline pipeline(
      Saying({TextEvent(0, "a", {1}), TextEvent(1, "x", {2}), TextEvent(2, "p\n", {2}),
              TextEvent(0, "b", {3}), TextEvent(1, "y", {4}), FinishedEvent(3, 5)}));
  FakeEnvironment fake;
  EXPECT_EQ(fake.Run({"generate", "--endpoint", pipeline.endpoint(), "--n", "3", "Once"}), 0);
  EXPECT_EQ(fake.out.str(),
            "--- sequence 0 ---\nab\n--- sequence 1 ---\nxy\n--- sequence 2 ---\np\n");
}

TEST(GenerateTest, PrintsOneJsonObjectPerEvent) {
  FakePipeline pipeline(Saying(Story()));
  FakeEnvironment fake;
  EXPECT_EQ(fake.Run({"generate", "--endpoint", pipeline.endpoint(), "--json", "Once"}), 0);
  EXPECT_EQ(fake.out.str(),
            "{\"sequence\":0,\"text\":\"there \",\"token_ids\":[5]}\n"
            "{\"sequence\":0,\"text\":\"\",\"token_ids\":[6]}\n"
            "{\"sequence\":0,\"text\":\"was\",\"token_ids\":[7,8]}\n"
            "{\"finished\":true,\"finish_reason\":\"length\",\"usage\":{\"prompt_tokens\":3,"
            "\"generated_tokens\":4,\"shared_prompt_tokens\":0,\"cached_prompt_tokens\":0,"
            "\"drafted_tokens\":0,\"accepted_draft_tokens\":0},"
            "\"seed\":7,"
            "\"request_id\":\"r1\"}\n");
  EXPECT_THAT(fake.err.str(), IsEmpty());
}

TEST(GenerateTest, PrintsLogprobsInJson) {
  v1::GenerateResponse event = TextEvent(0, "a", {5});
  v1::PositionLogprobs* position = event.mutable_chunk()->add_logprobs();
  position->set_logprob(-0.1f);
  position->add_top()->set_token_id(9);
  position->mutable_top(0)->set_logprob(-1.25f);
  FakeAnswers answers = Saying({event, FinishedEvent(1, 1)});
  answers.vocabulary = {{5, "a"}, {9, "\xE2\x82"}};
  FakePipeline pipeline(answers);
  FakeEnvironment fake;
  EXPECT_EQ(
      fake.Run({"generate", "--endpoint", pipeline.endpoint(), "--json", "--logprobs=1", "a"}), 0);
  // The bytes too where they are a piece of a character.
  EXPECT_THAT(fake.out.str(),
              HasSubstr("\"logprobs\":[{\"logprob\":-0.1,\"token\":\"a\",\"top\":[{\"token_id\":9,"
                        "\"logprob\":-1.25,\"token\":\"\xEF\xBF\xBD\",\"bytes\":[226,130]}]}]}\n"));
  EXPECT_EQ(pipeline.requests().at(0).logprobs(), 1);
}

TEST(GenerateTest, NamesTheReasonsOfAllSequencesInJson) {
  v1::GenerateResponse finished = FinishedEvent(3, 9);
  v1::FinishedSequence* first = finished.mutable_finished()->mutable_sequences(0);
  first->set_reason(v1::FINISH_REASON_STOP_STRING);
  first->set_stop_string("\n\n");
  finished.mutable_finished()->mutable_sequences(1)->set_reason(v1::FINISH_REASON_STOP_TOKEN);
  FakePipeline pipeline(Saying({finished}));
  FakeEnvironment fake;
  EXPECT_EQ(fake.Run({"generate", "--endpoint", pipeline.endpoint(), "--json", "--n=3", "a"}), 0);
  const std::vector<Json> lines = Lines(fake.out.str());
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0]["finish_reason"], "stop_string");
  EXPECT_EQ(lines[0]["stop_string"], "\n\n");
  EXPECT_EQ(lines[0]["finish_reasons"], Json({"stop_string", "stop_token", "length"}));
}

TEST(GenerateTest, SendsWhatTheFlagsSay) {
  FakePipeline pipeline(Saying(Story()));
  FakeEnvironment fake;
  EXPECT_EQ(fake.Run({"generate",
                      "--endpoint",
                      pipeline.endpoint(),
                      "--prompt",
                      "Once, \xC3\xA9",
                      "--max_tokens",
                      "12",
                      "--temperature",
                      "0.5",
                      "--top_k",
                      "40",
                      "--top_p",
                      "0.9",
                      "--seed",
                      "18446744073709551615",
                      "--logit_bias",
                      "15=-2.5,7=3",
                      "--banned_token_ids",
                      "8,9",
                      "--stop",
                      "a,b\\n",
                      "--stop",
                      "",
                      "--stop_token_ids",
                      "3,4",
                      "--ignore_eos",
                      "--n",
                      "2",
                      "--priority",
                      "-1"}),
            0);
  v1::GenerateRequest expected;
  expected.set_text("Once, \xC3\xA9");
  expected.set_max_tokens(12);
  expected.mutable_sampling()->set_temperature(0.5f);
  expected.mutable_sampling()->set_top_k(40);
  expected.mutable_sampling()->set_top_p(0.9f);
  expected.mutable_sampling()->set_seed(18446744073709551615u);
  (*expected.mutable_sampling()->mutable_logit_bias())[15] = -2.5f;
  (*expected.mutable_sampling()->mutable_logit_bias())[7] = 3;
  expected.mutable_sampling()->add_banned_token_ids(8);
  expected.mutable_sampling()->add_banned_token_ids(9);
  expected.mutable_stop()->add_stop_strings("a,b\n");
  expected.mutable_stop()->add_stop_strings("");
  expected.mutable_stop()->add_stop_token_ids(3);
  expected.mutable_stop()->add_stop_token_ids(4);
  expected.mutable_stop()->set_ignore_eos(true);
  expected.set_n(2);
  expected.set_priority(-1);
  ASSERT_EQ(pipeline.requests().size(), 1u);
  EXPECT_TRUE(MessageDifferencer::Equals(pipeline.requests()[0], expected))
      << pipeline.requests()[0].DebugString();
}

TEST(GenerateTest, SaysWhatTheTextMustKeep) {
  FakePipeline pipeline(Saying(Story()));
  FakeEnvironment fake;
  const std::string schema = ::testing::TempDir() + "/schema.json";
  std::ofstream(schema) << "{\"type\": \"integer\"}\n";
  const auto constraint_of = [&](std::vector<std::string> flags) {
    std::vector<std::string> arguments = {"generate", "--endpoint", pipeline.endpoint(), "hello"};
    arguments.insert(arguments.end() - 1, flags.begin(), flags.end());
    EXPECT_EQ(fake.Run(arguments), 0);
    return pipeline.requests().back().constraint().ShortDebugString();
  };
  EXPECT_EQ(constraint_of({"--json_schema", schema}),
            R"(json_schema: "{\"type\": \"integer\"}\n")");
  EXPECT_EQ(constraint_of({"--any_json"}), "any_json: true");
  EXPECT_EQ(constraint_of({"--regex", "a+"}), R"(regex: "a+")");
  EXPECT_EQ(constraint_of({"--choice", "yes", "--choice", "no"}),
            R"(choices: "yes" choices: "no")");
  EXPECT_EQ(fake.Run({"generate", "--grammar", schema + ".none", "hello"}), 2);
  EXPECT_THAT(fake.err.str(), HasSubstr("schema.json.none: No such file"));
}

TEST(GenerateTest, SaysHowTheTextsAreSearchedFor) {
  FakePipeline pipeline(Saying(Story()));
  FakeEnvironment fake;
  EXPECT_EQ(
      fake.Run({"generate", "--endpoint", pipeline.endpoint(), "--beam_width=6", "--num_return=2",
                "--length_penalty=-0.5", "--early_stopping=never", "--best_of=3",
                "--bad_words=a\\n", "--dry_breakers=b", "--prompt_logprobs=4", "--json", "x"}),
      0);
  const v1::GenerateRequest request = pipeline.requests().at(0);
  EXPECT_EQ(
      request.beams().ShortDebugString(),
      "beam_width: 6 length_penalty: -0.5 early_stopping: EARLY_STOPPING_NEVER num_return: 2");
  EXPECT_EQ(request.best_of(), 3);
  EXPECT_EQ(request.bad_words(0), "a\n");
  EXPECT_EQ(request.dry_breakers(0), "b");
  EXPECT_EQ(request.prompt_logprobs(), 4);
  for (const auto& [flag, message] : std::vector<std::pair<std::string, std::string>>{
           {"--stochastic_beams", "need --beam_width"},
           {"--early_stopping=often", "none of false (heuristic), true (at_once) and never"},
           {"--prompt_logprobs=1", "--prompt_logprobs needs --json"}}) {
    FakeEnvironment refused;
    EXPECT_EQ(refused.Run({"generate", "--endpoint", pipeline.endpoint(), flag, "x"}), 2);
    EXPECT_THAT(refused.err.str(), HasSubstr(message));
  }
}

TEST(GenerateTest, PrintsScoresAndThePromptsLogprobsInJson) {
  v1::GenerateResponse prompt;
  prompt.mutable_chunk()->add_prompt_token_ids(9);
  prompt.mutable_chunk()->add_prompt_logprobs()->set_logprob(-0.5F);
  v1::GenerateResponse end = FinishedEvent(2, 4);
  for (int i = 0; i < 2; ++i) {
    end.mutable_finished()->mutable_sequences(i)->set_score(-i - 0.5);
    end.mutable_finished()->mutable_sequences(i)->set_sum_logprob(-i - 2);
  }
  FakePipeline pipeline(Saying({prompt, TextEvent(0, "a", {5}), end}));
  FakeEnvironment fake;
  ASSERT_EQ(fake.Run({"generate", "--endpoint", pipeline.endpoint(), "--json", "x"}), 0);
  const std::vector<Json> lines = Lines(fake.out.str());
  EXPECT_EQ(lines.at(0)["prompt_token_ids"], Json({9}));
  EXPECT_EQ(lines.at(0)["prompt_logprobs"][0]["logprob"], -0.5);
  EXPECT_FALSE(lines.at(1).contains("prompt_token_ids"));
  EXPECT_EQ(lines.at(2)["scores"], Json({-0.5, -1.5}));
  EXPECT_EQ(lines.at(2)["sum_logprobs"], Json({-2.0, -3.0}));
}

TEST(GenerateTest, LeavesUnsetWhatWasNotGiven) {
  FakePipeline pipeline(Saying(Story()));
  FakeEnvironment fake;
  EXPECT_EQ(fake.Run({"generate", "--endpoint", pipeline.endpoint(), "--token_ids="}), 0);
  const v1::GenerateRequest request = pipeline.requests().at(0);
  EXPECT_TRUE(request.has_token_ids());
  EXPECT_FALSE(request.has_max_tokens() || request.has_n() || request.has_logprobs());
  EXPECT_FALSE(request.sampling().has_temperature() || request.sampling().has_seed());
}

TEST(GenerateTest, ReadsThePromptFromStdinOrAFile) {
  FakePipeline pipeline(Saying(Story()));
  const TempFolder folder;
  folder.Write("prompt.txt", "from a\nfile\n");
  const auto prompt_of = [&](std::vector<std::string> arguments, const std::string& in) {
    FakeEnvironment fake;
    fake.in.str(in);
    arguments.insert(arguments.begin(), {"generate", "--endpoint", pipeline.endpoint()});
    EXPECT_EQ(fake.Run(arguments), 0) << fake.err.str();
    return pipeline.requests().back().text();
  };
  EXPECT_EQ(prompt_of({"-"}, "dashed\n"), "dashed");
  EXPECT_EQ(prompt_of({}, "piped\r\n"), "piped");
  EXPECT_EQ(prompt_of({"--prompt_file", "-"}, "two\n\n"), "two\n");
  EXPECT_EQ(prompt_of({"--prompt_file", folder.PathOf("prompt.txt")}, "unread"), "from a\nfile");
  EXPECT_EQ(prompt_of({"given"}, "unread"), "given");
}

TEST(GenerateTest, SpellsControlCharactersOutAtATerminalAlone) {
  FakePipeline pipeline(Saying({TextEvent(0,
                                          "a\x1b[31m\tb\xC2\x9B"
                                          "c\n",
                                          {1}),
                                FinishedEvent(1, 1)}));
  FakeEnvironment terminal;
  terminal.environment.out_is_terminal = true;
  EXPECT_EQ(terminal.Run({"generate", "--endpoint", pipeline.endpoint(), "Once"}), 0);
  EXPECT_EQ(terminal.out.str(), "a\\x1b[31m\tb\\x9bc\n");
  FakeEnvironment pipe;
  EXPECT_EQ(pipe.Run({"generate", "--endpoint", pipeline.endpoint(), "Once"}), 0);
  EXPECT_EQ(pipe.out.str(),
            "a\x1b[31m\tb\xC2\x9B"
            "c\n");
}

}  // namespace
}  // namespace sluice::testing
