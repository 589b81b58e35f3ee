// `sluice generate` and `sluice run` against a service that says what the test tells it to.
#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "clients/cli/json.h"
#include "tests/clients/cli/fake_pipeline.h"
#include "tests/services/model/model_folder.h"

namespace sluice::testing {
namespace {

using ::google::protobuf::util::MessageDifferencer;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Answers every request with these events.
FakeAnswers Saying(std::vector<v1::GenerateResponse> events) {
  FakeAnswers answers = DefaultAnswers();
  answers.generate = [events](const v1::GenerateRequest&, const WriteEvent& write) {
    for (const v1::GenerateResponse& event : events) write(event);
    return absl::OkStatus();
  };
  return answers;
}

FakeAnswers Failing(const absl::Status& status, std::vector<v1::GenerateResponse> events = {}) {
  FakeAnswers answers = DefaultAnswers();
  answers.generate = [status, events](const v1::GenerateRequest&, const WriteEvent& write) {
    for (const v1::GenerateResponse& event : events) write(event);
    return status;
  };
  return answers;
}

std::vector<v1::GenerateResponse> Story() {
  return {TextEvent(0, "there ", {5}), TextEvent(0, "", {6}), TextEvent(0, "was", {7, 8}),
          FinishedEvent(1, 4)};
}

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
  EXPECT_EQ(fake.out.str(), "there was");
  EXPECT_THAT(fake.err.str(), HasSubstr("4 tokens in "));
  EXPECT_THAT(fake.err.str(), HasSubstr("; prompt of 3 tokens; seed 7\n"));
}

TEST(GenerateTest, EndsTheLineOnATerminal) {
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
  EXPECT_EQ(fake.out.str(), "5 6 7");
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
  FakePipeline pipeline(Saying({event, FinishedEvent(1, 1)}));
  FakeEnvironment fake;
  EXPECT_EQ(
      fake.Run({"generate", "--endpoint", pipeline.endpoint(), "--json", "--logprobs=1", "a"}), 0);
  EXPECT_THAT(fake.out.str(),
              HasSubstr("\"logprobs\":[{\"logprob\":-0.1,\"top\":[{\"token_id\":9,\"logprob\":"
                        "-1.25}]}]}\n"));
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

TEST(GenerateTest, PrintsTheServersRefusal) {
  FakePipeline pipeline(Failing(absl::InvalidArgumentError("top_p is 2; accepted: (0, 1]")));
  FakeEnvironment fake;
  EXPECT_EQ(fake.Run({"generate", "--endpoint", pipeline.endpoint(), "--top_p", "2", "Once"}), 1);
  EXPECT_THAT(fake.out.str(), IsEmpty());
  EXPECT_EQ(fake.err.str(), "sluice: top_p is 2; accepted: (0, 1] [INVALID_ARGUMENT]\n");
}

TEST(GenerateTest, KeepsWhatCameBeforeAFailure) {
  FakePipeline pipeline(Failing(absl::InternalError("broke"), {TextEvent(0, "half", {1})}));
  FakeEnvironment fake;
  EXPECT_EQ(fake.Run({"generate", "--endpoint", pipeline.endpoint(), "Once"}), 1);
  EXPECT_EQ(fake.out.str(), "half");
  EXPECT_EQ(fake.err.str(), "sluice: broke [INTERNAL]\n");
}

TEST(GenerateTest, NoticesAStreamWithoutItsEnd) {
  FakePipeline pipeline(Saying({TextEvent(0, "half", {1})}));
  FakeEnvironment fake;
  EXPECT_EQ(fake.Run({"generate", "--endpoint", pipeline.endpoint(), "Once"}), 1);
  EXPECT_THAT(fake.err.str(), HasSubstr("without its last event [INTERNAL]"));
}

TEST(GenerateTest, SaysWhereNobodyListens) {
  FakeEnvironment fake;
  // A port below 1024 that no test machine serves.
  EXPECT_EQ(fake.Run({"generate", "--endpoint", "127.0.0.1:9", "--connect_timeout", "1", "Once"}),
            1);
  EXPECT_EQ(fake.err.str(),
            "sluice: nothing listens at 127.0.0.1:9; start one with `sluice up` (waiting 1s for "
            "it)\n"
            "sluice: cannot reach 127.0.0.1:9: Connection refused: nothing listens there; `sluice "
            "up` starts a pipeline [UNAVAILABLE]\n");
}

TEST(GenerateTest, SaysHowAnAddressIsWritten) {
  for (const char* address : {"8700", ":8700", "::1:8805", "http://127.0.0.1:8700"}) {
    FakeEnvironment fake;
    EXPECT_EQ(fake.Run({"generate", "--endpoint", address, "Once"}), 2);
    EXPECT_THAT(fake.err.str(), HasSubstr("write HOST:PORT, such as"));
  }
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

TEST(GenerateTest, RefusesTwoPromptsNoneAndFilesThatAreNotThere) {
  FakePipeline pipeline(Saying(Story()));
  const auto refusal = [&](std::vector<std::string> arguments, bool terminal) {
    FakeEnvironment fake;
    fake.environment.in_is_terminal = terminal;
    arguments.insert(arguments.begin(), {"generate", "--endpoint", pipeline.endpoint()});
    EXPECT_NE(fake.Run(arguments), 0);
    return fake.err.str();
  };
  EXPECT_THAT(refusal({}, /*terminal=*/true), HasSubstr("no prompt: give one of"));
  EXPECT_THAT(refusal({}, /*terminal=*/false), HasSubstr("no prompt: give one of"));
  EXPECT_THAT(refusal({"-", "--prompt_file", "x"}, true), HasSubstr("more than one prompt"));
  EXPECT_THAT(refusal({"given", "--prompt_file", "x"}, true), HasSubstr("more than one prompt"));
  EXPECT_THAT(refusal({"--prompt_file", "/nowhere"}, true),
              HasSubstr("/nowhere: No such file or directory [NOT_FOUND]"));
}

TEST(GenerateTest, PrintsNothingForARefusedRequestOfSeveralSequences) {
  FakePipeline pipeline(Failing(absl::InvalidArgumentError("n is 17; accepted: 1 to 16")));
  FakeEnvironment fake;
  EXPECT_EQ(fake.Run({"generate", "--endpoint", pipeline.endpoint(), "--n", "17", "Once"}), 1);
  EXPECT_THAT(fake.out.str(), IsEmpty());
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

TEST(GenerateTest, AsksForCertificatesBeyondLoopback) {
  FakeEnvironment fake;
  EXPECT_EQ(fake.Run({"generate", "--endpoint", "192.0.2.1:8700", "Once"}), 1);
  EXPECT_THAT(fake.err.str(), HasSubstr("192.0.2.1:8700"));
  EXPECT_THAT(fake.err.str(), HasSubstr("set --tls_ca to the authority of its certificate"));
}

TEST(GenerateTest, CtrlCEndsTheCallAndExits130) {
  FakeEnvironment fake;
  bool client_left = false;
  FakeAnswers answers = DefaultAnswers();
  answers.generate = [&](const v1::GenerateRequest&, const WriteEvent& write) {
    write(TextEvent(0, "half", {1}));
    EXPECT_TRUE(fake.interrupt.Request(130));
    while (write(TextEvent(0, "", {}))) {
    }
    client_left = true;
    return absl::CancelledError();
  };
  {
    FakePipeline pipeline(answers);
    EXPECT_EQ(fake.Run({"generate", "--endpoint", pipeline.endpoint(), "Once"}), 130);
  }
  EXPECT_TRUE(client_left);
  EXPECT_THAT(fake.err.str(), IsEmpty());
}

TEST(GenerateTest, GivesUpAfterItsTimeout) {
  FakeAnswers answers = DefaultAnswers();
  answers.generate = [](const v1::GenerateRequest&, const WriteEvent& write) {
    while (write(TextEvent(0, "", {}))) {
    }
    return absl::CancelledError();
  };
  FakePipeline pipeline(answers);
  FakeEnvironment fake;
  EXPECT_EQ(fake.Run({"generate", "--endpoint", pipeline.endpoint(), "--timeout", "0.05", "Once"}),
            1);
  EXPECT_THAT(fake.err.str(), HasSubstr("[DEADLINE_EXCEEDED]"));
}

TEST(GenerateTest, FailsWhereStdoutCannotBeWritten) {
  FakePipeline pipeline(Saying(Story()));
  FakeEnvironment fake;
  fake.out.setstate(std::ios::badbit);
  EXPECT_EQ(fake.Run({"generate", "--endpoint", pipeline.endpoint(), "Once"}), 1);
  EXPECT_THAT(fake.err.str(), HasSubstr("could not be written to stdout"));
}

TEST(RunTest, StartsThePipelineThatTheFlagsDescribe) {
  FakePipeline pipeline(Saying(Story()));
  FakeEnvironment fake;
  InProcessOptions seen;
  fake.environment.start_in_process = [&](const InProcessOptions& options) {
    seen = options;
    return pipeline.InProcess();
  };
  EXPECT_EQ(fake.Run({"run", "--model", "some/model", "--tp", "4", "--pp", "2", "--weights", "int4",
                      "--kv_dtype", "bf16", "--threads", "3", "--kv_cache_mib", "64",
                      "--rope_scaling", "yarn,factor=4", "Once"}),
            0);
  EXPECT_EQ(fake.out.str(), "there was");
  EXPECT_EQ(seen.model, "some/model");
  EXPECT_EQ(seen.num_ranks, 4);
  EXPECT_EQ(seen.num_stages, 2);
  EXPECT_EQ(seen.weights, WeightType::kInt4);
  EXPECT_EQ(seen.kv_dtype, DType::kBF16);
  EXPECT_EQ(seen.num_threads, 3);
  EXPECT_EQ(seen.kv_cache_bytes, 64u << 20);
  EXPECT_EQ(seen.overrides.rope_scaling, "yarn,factor=4");
  EXPECT_EQ(pipeline.requests().at(0).text(), "Once");
}

TEST(RunTest, SaysHowManyPositionsThePoolHolds) {
  FakeAnswers answers = Saying(Story());
  answers.model.set_max_positions(512);
  answers.status.mutable_kv_cache()->set_block_size(16);
  answers.status.mutable_kv_cache()->set_num_blocks(4);
  FakePipeline pipeline(answers);
  FakeEnvironment fake;
  fake.environment.start_in_process = [&](const InProcessOptions&) { return pipeline.InProcess(); };
  EXPECT_EQ(fake.Run({"run", "--model", "some/model", "Once"}), 0);
  EXPECT_THAT(fake.err.str(),
              HasSubstr("sluice: the KV pool holds 64 positions; the context of fake "
                        "is 512, so no sequence reaches it: --kv_cache_mib"));
}

TEST(RunTest, RefusesMoreThreadsThanAnyMachineHas) {
  FakeEnvironment fake;
  EXPECT_EQ(fake.Run({"run", "--threads", "20000", "Once"}), 2);
  EXPECT_THAT(fake.err.str(), HasSubstr("--threads: 20000 is more than 1024"));
}

TEST(RunTest, PrintsWhyThePipelineDidNotStart) {
  FakeEnvironment fake;
  fake.environment.start_in_process = [](const InProcessOptions& options) {
    return absl::NotFoundError(options.model + "/config.json does not exist");
  };
  EXPECT_EQ(fake.Run({"run", "--model", "nowhere", "Once"}), 1);
  EXPECT_EQ(fake.err.str(), "sluice: nowhere/config.json does not exist [NOT_FOUND]\n");
}

// The model that `run` starts for a program at `executable`; empty where it starts none.
std::string ModelStartedBy(const std::string& executable, FakeEnvironment& fake) {
  std::string model;
  fake.environment.executable = executable;
  fake.environment.start_in_process = [&model](const InProcessOptions& options) {
    model = options.model;
    return absl::CancelledError("seen enough");
  };
  EXPECT_EQ(fake.Run({"run", "Once"}), 1);
  return model;
}

TEST(RunTest, FindsTheEmbeddedModelFromTheProgram) {
  const TempFolder folder;
  for (const char* place : {"models/storyteller", "usr/share/sluice/models/storyteller"}) {
    std::filesystem::create_directories(folder.PathOf(place));
    folder.Write(std::string(place) + "/config.json", "{}");
  }
  FakeEnvironment in_checkout;
  EXPECT_EQ(ModelStartedBy(folder.PathOf("build/release/bin/sluice"), in_checkout),
            folder.PathOf("models/storyteller"));
  FakeEnvironment installed;
  EXPECT_EQ(ModelStartedBy(folder.PathOf("usr/bin/sluice"), installed),
            folder.PathOf("usr/share/sluice/models/storyteller"));
}

TEST(RunTest, AsksForAModelWhereNoneIsEmbedded) {
  const TempFolder folder;
  FakeEnvironment fake;
  EXPECT_EQ(ModelStartedBy(folder.PathOf("a/b/c/sluice"), fake), "");
  EXPECT_THAT(fake.err.str(), HasSubstr(folder.PathOf("models/storyteller")));
  EXPECT_THAT(fake.err.str(), HasSubstr("name a model's folder with --model DIR"));
}

}  // namespace
}  // namespace sluice::testing
