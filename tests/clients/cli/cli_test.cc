// The program's surface: commands, flags, help, exit statuses of wrong command lines.
#include "clients/cli/cli.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "kernels/gpu/gpu_devices.h"
#include "kernels/sampling_options/sampling_options.h"
#include "services/options/option_table.h"
#include "tests/clients/cli/fake_pipeline.h"

namespace sluice::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Names = std::vector<std::string>;

Names operator+(Names names, const Names& more) {
  names.insert(names.end(), more.begin(), more.end());
  return names;
}

// Of the table, which option_values_test.cc holds against what there was.
Names OptionsOf(Programs program) {
  Names names;
  for (const Option& option : kOptions) {
    if ((option.programs & program) != 0) names.emplace_back(option.name);
  }
  return names;
}

const std::map<std::string, Names>& FlagsOfCommands() {
  static const auto& flags = *[] {
    const Names source = {"source", "source_ids"};
    const Names prompt = {"prompt",          "prompt_file",     "token_ids",  "n",
                          "best_of",         "logprobs",        "json",       "processed_logprobs",
                          "prompt_logprobs", "beam_width",      "num_return", "length_penalty",
                          "early_stopping",  "stochastic_beams"};
    Names parameters;
    for (const SamplingParameter& parameter : kSamplingParameters) {
      if (parameter.name != std::string("seed")) parameters.emplace_back(parameter.name);
    }
    const Names sampling =
        parameters + Names{"bad_words",      "dry_breakers",    "max_tokens", "seed",    "stop",
                           "stop_token_ids", "ignore_eos",      "priority",   "adapter", "timeout",
                           "json_schema",    "any_json",        "regex",      "grammar", "choice",
                           "decline_drafts", "max_draft_tokens"};
    const Names model = OptionsOf(kRun);
    const Names server = {"endpoint", "connect_timeout", "tls_cert",   "tls_key", "tls_ca",
                          "tls",      "insecure",        "token_file", "api_key"};
    const Names score = {"text", "file",     "lines",   "token_ids", "top",
                         "json", "priority", "timeout", "adapter"};
    const Names load = {"prompt_tokens", "max_tokens",   "concurrency",  "requests",
                        "seed",          "json",         "phases",       "rounds",
                        "draft_replay",  "draft_tokens", "allow_drafts", "json_schema",
                        "any_json",      "regex",        "grammar",      "choice",
                        "arrivals",      "fit",          "adapter"};
    return new std::map<std::string, Names>{
        {"run", prompt + source + sampling + model},
        {"up", OptionsOf(kUp)},
        {"generate", prompt + source + sampling + server},
        {"chat", Names{"system"} + sampling + model + server},
        {"score", score + source + model + server},
        {"embed", Names{"text", "lines", "token_ids", "prompt_name", "dimensions",
                        "truncate_tokens", "json", "priority", "timeout"} +
                      model + server},
        {"attention",
         Names{"token_ids", "layer", "head", "rollout", "lens", "json", "svg", "timeout"} + model +
             server},
        {"batch", Names{"out", "concurrency"} + model + server},
        {"bench", load + parameters + model + server},
        {"prefer", Names{"policy", "reference", "pairs", "beta", "json", "timeout"} +
                       Names(server.begin() + 1, server.end())},
        {"quantize", Names{"weights", "threads"}},
        {"plan", Names{"context", "sequences", "json"} + OptionsOf(kPlan)},
        {"simulate",
         Names{"trace",         "speed",      "tokens_per_hash", "arrivals",  "requests",
               "prompt_tokens", "max_tokens", "prefix_tokens",   "prefixes",  "seed",
               "costs",         "replicas",   "model",           "kv_blocks", "slo",
               "find",          "slo_share",  "routing",         "faults",    "start_time",
               "svg",           "json"} +
             OptionsOf(kSimulate)},
        {"status", Names{"json", "requests", "request", "watch", "interval"} + server},
        {"top", Names{"interval", "rows"} + server},
        {"token", Names{"tokens"}},
        {"health", Names{"service", "timeout"} + server},
        {"chat-template", Names{"tokenizer", "template", "context", "name", "now"}},
    };
  }();
  return flags;
}

TEST(CliTest, HelpOfEveryCommandShowsEveryFlag) {
  for (const auto& [command, names] : FlagsOfCommands()) {
    FakeEnvironment fake;
    ASSERT_EQ(fake.Run({command, "--help"}), 0) << command;
    const std::string help = fake.out.str();
    EXPECT_THAT(help, HasSubstr("Usage: sluice " + command + " "));
    EXPECT_THAT(fake.err.str(), IsEmpty());
    size_t shown = 0;
    for (size_t at = help.find("\n  --"); at != std::string::npos;
         at = help.find("\n  --", at + 1)) {
      ++shown;
    }
    EXPECT_EQ(shown, names.size()) << help;
    for (const std::string& name : names) {
      EXPECT_THAT(help + " ", HasSubstr("\n  --" + name + " ")) << command;
    }
  }
}

TEST(CliTest, HelpNamesEveryCommand) {
  for (const char* argument : {"help", "--help", "-h"}) {
    FakeEnvironment fake;
    EXPECT_EQ(fake.Run({argument}), 0);
    for (const auto& [command, names] : FlagsOfCommands()) {
      EXPECT_THAT(fake.out.str(), HasSubstr("\n  " + command + " "));
    }
  }
}

TEST(CliTest, HelpOfACommandByName) {
  FakeEnvironment by_name;
  FakeEnvironment by_flag;
  EXPECT_EQ(by_name.Run({"help", "score"}), 0);
  EXPECT_EQ(by_flag.Run({"score", "--help"}), 0);
  EXPECT_EQ(by_name.out.str(), by_flag.out.str());
}

TEST(CliTest, PrintsItsVersion) {
  FakeEnvironment fake;
  EXPECT_EQ(fake.Run({"version"}), 0);
  EXPECT_THAT(fake.out.str(), HasSubstr("sluice 0."));
}

TEST(CliTest, RefusesUnknownCommandsNamingWhatExists) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"serve"}, std::vector<std::string>{"help", "serve"}}) {
    FakeEnvironment fake;
    EXPECT_EQ(fake.Run(arguments), 2);
    EXPECT_THAT(fake.out.str(), IsEmpty());
    EXPECT_EQ(fake.err.str(),
              "sluice: unknown command \"serve\"; there are run, up, generate, chat, "
              "chat-template, score, attention, embed, batch, prefer, tokenize, detokenize, pull, "
              "quantize, plan, bench, "
              "simulate, status, top, token, health, help, version\n");
  }
}

TEST(CliTest, WithoutArgumentsExplainsItselfOnStderr) {
  FakeEnvironment fake;
  EXPECT_EQ(fake.Run({}), 2);
  EXPECT_THAT(fake.out.str(), IsEmpty());
  EXPECT_THAT(fake.err.str(), HasSubstr("Usage: sluice COMMAND"));
}

TEST(CliTest, EveryCommandRefusesUnknownFlagsAndExtraArguments) {
  for (const auto& [command, names] : FlagsOfCommands()) {
    FakeEnvironment flag;
    EXPECT_EQ(flag.Run({command, "--colour=red"}), 2);
    EXPECT_THAT(flag.out.str(), IsEmpty());
    EXPECT_THAT(flag.err.str(), HasSubstr("sluice " + command + ": unknown flag --colour;"));
    EXPECT_THAT(flag.err.str(), HasSubstr("--" + names.front()));

    FakeEnvironment extra;
    EXPECT_EQ(extra.Run({command, "one", "two", "three"}), 2);
    EXPECT_THAT(extra.err.str(), HasSubstr("unexpected argument \""));
  }
}

// Command lines that are wrong in themselves, and what is said about them.
TEST(CliTest, RefusesWhatNoRequestCanCarry) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"run"},
       "no prompt: give one of PROMPT, --prompt TEXT, --prompt_file FILE and --token_ids 1,2,3"},
      {{"run", "a", "--prompt", "b"}, "more than one prompt"},
      {{"generate", "--prompt", "a", "--token_ids", "1"}, "more than one prompt"},
      {{"generate", "--token_ids", "1,two,3"}, "--token_ids: item 2: \"two\" is not an integer"},
      {{"generate", "ab\xC3"}, "the prompt is not UTF-8: byte 0xC3 at offset 2"},
      {{"generate", "a", "--stop", "\\q"}, "--stop: \"\\q\" has a faulty escape"},
      {{"generate", "a", "--stop", "\\xff"}, "--stop: not UTF-8: byte 0xFF at offset 0"},
      {{"generate", "a", "--temperature", "nan"}, "--temperature: \"nan\" is not a finite number"},
      {{"generate", "a", "--logit_bias", "5"}, "--logit_bias: \"5\" is not a token id"},
      {{"generate", "a", "--max_tokens", "many"}, "--max_tokens: \"many\" is not an integer"},
      {{"generate", "a", "--logprobs", "2"}, "--logprobs needs --json"},
      {{"generate", "a", "--model", "x"}, "unknown flag --model"},
      {{"run", "a", "--tp", "0"}, "--tp is 0; accepted: 1 to 1024"},
      {{"run", "a", "--weights", "f16"},
       "accepted: auto, f32, bf16, int8, int4, fp8, int8-g64, fp8-w8a8"},
      {{"run", "a", "--device", "tpu"}, "\"tpu\"; accepted: cpu"},
      {{"run", "a", "--device", BuiltForGpus() ? "cuda:" : "cuda:1"},
       BuiltForGpus() ? "accepted: cpu, cuda or cuda:INDEX" : "cuda:1 needs a build with CUDA"},
      {{"run", "a", "--kv_dtype", "int8"}, "\"int8\"; accepted: f32, bf16, fp8"},
      {{"quantize", "in", "--weights", "int8"}, "give MODEL and OUT"},
      {{"quantize", "in", "out"},
       "give --weights int8, --weights int4, --weights fp8 or --weights int8-g64"},
      {{"quantize", "in", "out", "--weights", "bf16"},
       "\"bf16\"; accepted: int8, int4, fp8, int8-g64"},
      {{"quantize", "in", "out", "--weights", "fp8-w8a8"}, "is served with --weights fp8-w8a8"},
      {{"quantize", "in", "out", "more"}, "unexpected argument \"more\""},
      {{"score", "--text", "a", "--endpoint", "a:1", "--kv_dtype", "bf16"}, "excludes --model"},
      {{"run", "a", "--kv_cache_mib", "0"}, "--kv_cache_mib is 0; accepted: 1 to "},
      {{"chat", "--endpoint", "a:1", "--model", "x"}, "--endpoint names a pipeline that has"},
      {{"score"}, "exactly one of --text TEXT, --file FILE, --lines FILE and --token_ids"},
      {{"score", "--text", "a", "--file", "b"}, "exactly one of"},
      {{"score", "--text", "\x80"}, "--text is not UTF-8: byte 0x80 at offset 0"},
      {{"score", "--text", "a", "--top", "2"}, "--top needs --json"},
      {{"score", "--text", "a", "--endpoint", "a:1", "--tp", "2"}, ", --tp, --pp, "},
      {{"bench", "--requests", "0"}, "--requests: 0 is less than 1"},
      {{"bench", "--concurrency", "5000"}, "--concurrency: 5000 is more than 4096"},
      {{"up", "--port", "65536"}, "--port is 65536; accepted: 0 to 65535"},
      {{"up", "--host", "0.0.0.0"}, "0.0.0.0:8700 is neither a unix socket nor a loopback address"},
  };
  for (const auto& [arguments, message] : cases) {
    FakeEnvironment fake;
    EXPECT_EQ(fake.Run(arguments), 2) << message;
    EXPECT_THAT(fake.out.str(), IsEmpty());
    EXPECT_THAT(fake.err.str(), HasSubstr("sluice " + arguments[0] + ": "));
    EXPECT_THAT(fake.err.str(), HasSubstr(message));
    EXPECT_THAT(fake.err.str(), HasSubstr("sluice " + arguments[0] + " --help explains"));
  }
}

TEST(CliTest, HelpFitsTheTerminal) {
  for (const int columns : {40, 100}) {
    for (const Names& arguments :
         {Names{"help"}, Names{"top", "--help"}, Names{"detokenize", "--help"}}) {
      FakeEnvironment fake;
      fake.environment.columns = columns;
      EXPECT_EQ(fake.Run(arguments), 0);
      std::string line;
      while (std::getline(fake.out, line)) EXPECT_LE(line.size(), columns) << line;
    }
  }
}

}  // namespace
}  // namespace sluice::testing
