#include "clients/cli/process_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "kernels/gpu/gpu_devices.h"
#include "orchestrator/drafts/draft_mode.h"
#include "orchestrator/drafts/draft_policy.h"
#include "services/process/log.h"
#include "services/process/log_format.h"
#include "tests/services/model/model_folder.h"

namespace sluice::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

ModelConfig TinyConfig() { return *ParseModelConfig(TinyLlamaConfig(), "", "test"); }

// Those of `sluice up` with these options, which are not those of CPUs.
ModelFlags Flags(const std::vector<std::pair<std::string, std::string>>& options) {
  ModelFlags flags(kUp);
  for (const auto& [name, text] : options) {
    const absl::Status set = flags.values.Set(name, text);
    EXPECT_TRUE(set.ok()) << set;
  }
  return flags;
}

PipelineSpec Spec(const ModelFlags& flags) {
  return {.bin_folder = "/bin",
          .socket_folder = "/tmp/s",
          .model_folder = "/m",
          .listen = "127.0.0.1:8700",
          .flags = flags};
}

// The command lines, in order, without how each is told where to say why it ends.
std::vector<std::string> CommandLines(const PipelineSpec& spec) {
  const ModelConfig config = TinyConfig();
  const auto shards = PlanShards(config, spec.flags);
  EXPECT_TRUE(shards.ok()) << shards.status();
  std::vector<std::string> lines;
  const auto processes = PlanProcesses(spec, config, *shards);
  EXPECT_TRUE(processes.ok()) << processes.status();
  for (const ProcessSpec& process : *processes) {
    const std::string line = absl::StrJoin(process.argv, " ");
    const std::string end = absl::StrCat("/tmp/s/", process.name, ".end");
    EXPECT_EQ(process.termination_log, end);
    EXPECT_THAT(line, HasSubstr(" --termination_log " + end));
    lines.push_back(process.name + ": " +
                    absl::StrReplaceAll(line, {{" --termination_log " + end, ""}}));
  }
  return lines;
}

std::vector<std::string> CommandLines(const ModelFlags& flags,
                                      const std::string& http_listen = "") {
  PipelineSpec spec = Spec(flags);
  spec.http_listen = http_listen;
  return CommandLines(spec);
}

// The model has 3 layers and 2 KV heads: the stages hold 2 and 1 layers, each rank one head.
TEST(ProcessPlanTest, StartsEveryServiceWithItsFlags) {
  const ModelFlags flags = Flags({{"tp", "2"},
                                  {"pp", "2"},
                                  {"weights", "f32"},
                                  {"kv_dtype", "bf16"},
                                  {"threads", "9"},
                                  {"kv_cache_mib", "60"},
                                  {"max_step_tokens", "256"},
                                  {"max_step_sequences", "8"},
                                  {"max_queued_sequences", "9"},
                                  {"draft", "none"},
                                  {"draft_policy", "always"}});
  const auto shard = [](const char* stage, const char* rank, const char* mib) {
    const std::string name = absl::StrCat("shard-", stage, "-", rank);
    return absl::StrCat(name, ": /bin/sluice-shard --listen unix:/tmp/s/", name,
                        " --model /m --num_stages 2 --stage ", stage, " --num_ranks 2 --rank ",
                        rank, " --weights f32 --kv_dtype bf16 --threads 2 --kv_cache_mib ", mib,
                        " --max_step_tokens 256");
  };
  EXPECT_THAT(
      CommandLines(flags),
      ElementsAre(
          "tokenizer: /bin/sluice-tokenizer --listen unix:/tmp/s/tokenizer --model /m",
          "embedding: /bin/sluice-embedding --listen unix:/tmp/s/embedding --model /m "
          "--weights f32 --threads 9",
          shard("0", "0", "20"), shard("0", "1", "20"), shard("1", "0", "10"),
          shard("1", "1", "10"),
          "sampler: /bin/sluice-sampler --listen unix:/tmp/s/sampler --model /m --weights f32 "
          "--threads 9",
          "orchestrator: /bin/sluice-orchestrator --listen 127.0.0.1:8700 --model /m "
          "--weights f32 --tokenizer unix:/tmp/s/tokenizer "
          "--embedding unix:/tmp/s/embedding "
          "--shards unix:/tmp/s/shard-0-0,unix:/tmp/s/shard-0-1;"
          "unix:/tmp/s/shard-1-0,unix:/tmp/s/shard-1-1 --sampler unix:/tmp/s/sampler "
          "--max_step_tokens 256 --max_step_sequences 8 --max_queued_sequences 9 --draft none "
          "--draft_policy always"));
}

// What is not given is the same by default, as OptionTableTest holds: nothing is said of it.
TEST(ProcessPlanTest, SaysNothingOfDefaults) {
  const ModelFlags flags = Flags({{"threads", "2"}});
  EXPECT_THAT(
      CommandLines(flags),
      ElementsAre("tokenizer: /bin/sluice-tokenizer --listen unix:/tmp/s/tokenizer --model /m",
                  "embedding: /bin/sluice-embedding --listen unix:/tmp/s/embedding --model /m "
                  "--threads 2",
                  "shard-0-0: /bin/sluice-shard --listen unix:/tmp/s/shard-0-0 --model /m "
                  "--num_stages 1 --stage 0 --num_ranks 1 --rank 0 --threads 2 --kv_cache_mib 512",
                  "sampler: /bin/sluice-sampler --listen unix:/tmp/s/sampler --model /m "
                  "--threads 2",
                  "orchestrator: /bin/sluice-orchestrator --listen 127.0.0.1:8700 --model /m "
                  "--tokenizer unix:/tmp/s/tokenizer --embedding unix:/tmp/s/embedding "
                  "--shards unix:/tmp/s/shard-0-0 --sampler unix:/tmp/s/sampler"));
}

TEST(ProcessPlanTest, TheOrchestratorHasThePublicListener) {
  PipelineSpec spec = Spec(Flags({{"tls_cert", "c"},
                                  {"tls_key", "k"},
                                  {"tls_ca", "a"},
                                  {"tokens", "t"},
                                  {"tenants", "n"},
                                  {"insecure_public", "true"},
                                  {"vllm_metric_names", "true"},
                                  {"health_listen", "0.0.0.0:8701"},
                                  {"drain_delay", "5"},
                                  {"drain_timeout", "60"},
                                  {"otlp_endpoint", "o:1"},
                                  {"otlp_sample_ratio", "0.25"},
                                  {"metrics_port", "9000"},
                                  {"metrics_host", "0.0.0.0"}}));
  spec.health = "unix:/tmp/s/health";
  spec.http_listen = "0.0.0.0:8080";
  spec.memory_limit = uint64_t{8} << 30;
  const std::vector<std::string> lines = CommandLines(spec);
  ASSERT_EQ(lines.size(), 6u);
  EXPECT_EQ(lines[0],
            "tokenizer: /bin/sluice-tokenizer --listen unix:/tmp/s/tokenizer --model /m "
            "--metrics_port 9001 --metrics_host 0.0.0.0");
  EXPECT_EQ(lines[4],
            "orchestrator: /bin/sluice-orchestrator --listen 127.0.0.1:8700 --owners_socket "
            "unix:/tmp/s/public --public_tls_cert c --public_tls_key k --public_tls_ca a "
            "--tokens t --tenants n --insecure_public=true --model /m --tokenizer "
            "unix:/tmp/s/tokenizer --embedding unix:/tmp/s/embedding --shards "
            "unix:/tmp/s/shard-0-0 --sampler unix:/tmp/s/sampler --health_listen "
            "unix:/tmp/s/health,0.0.0.0:8701 --drain_delay 5s --drain_timeout 1m --metrics_port "
            "9000 --metrics_host 0.0.0.0 --vllm_metric_names=true --otlp_endpoint o:1 "
            "--otlp_sample_ratio 0.25");
  EXPECT_EQ(lines[5],
            "gateway: /bin/sluice-gateway --listen 0.0.0.0:8080 --tls_cert c --tls_key k "
            "--orchestrator unix:/tmp/s/public --memory_mib 1024 --health_listen "
            "unix:/tmp/s/gateway --otlp_endpoint o:1 --otlp_sample_ratio 0.25");
}

TEST(ProcessPlanTest, EveryProcessIsToldHowLongWorkMayTakeAndAskedForItsHealth) {
  const ModelFlags flags = Flags({{"hang_timeout", "1.5"}});
  for (const std::string& line : CommandLines(flags)) {
    EXPECT_THAT(line, HasSubstr(" --hang_timeout 1.5s"));
  }
  const ModelConfig config = TinyConfig();
  PipelineSpec spec = Spec(flags);
  spec.health = "unix:/tmp/s/health";
  const auto processes = *PlanProcesses(spec, config, *PlanShards(config, flags));
  EXPECT_EQ(processes.front().health, "unix:/tmp/s/tokenizer");
  EXPECT_EQ(processes.back().health, "unix:/tmp/s/health");
}

TEST(ProcessPlanTest, StartsTheGatewayLastWhereAskedTo) {
  EXPECT_EQ(CommandLines(Flags({})).size(), 5u);
  const std::vector<std::string> lines = CommandLines(Flags({}), "127.0.0.1:8080");
  ASSERT_EQ(lines.size(), 6u);
  EXPECT_EQ(lines.back(),
            "gateway: /bin/sluice-gateway --listen 127.0.0.1:8080 --orchestrator 127.0.0.1:8700 "
            "--health_listen unix:/tmp/s/gateway");
}

TEST(ProcessPlanTest, StartsTheGatewayThatKillsWhereADemonstrationIsAskedFor) {
  PipelineSpec spec = Spec(Flags({}));
  spec.http_listen = "127.0.0.1:8080";
  spec.demo_token_file = "/tmp/s/demo-token";
  EXPECT_EQ(CommandLines(spec).back(),
            "gateway: /bin/sluice-gateway-demo --listen 127.0.0.1:8080 --orchestrator "
            "127.0.0.1:8700 --demo_token_file /tmp/s/demo-token --health_listen "
            "unix:/tmp/s/gateway");
}

TEST(ProcessPlanTest, AllLogAlike) {
  PipelineSpec spec = Spec(Flags({{"log_level", "error"}, {"log_format", "json"}}));
  spec.http_listen = "127.0.0.1:8080";
  for (const std::string& line : CommandLines(spec)) {
    EXPECT_THAT(line, HasSubstr(" --log_level error --log_format json"));
  }
}

TEST(ProcessPlanTest, AGatewayWithTlsComesToTheOrchestratorOnASocket) {
  const std::vector<std::string> lines =
      CommandLines(Flags({{"tls_cert", "c"}, {"tls_key", "k"}}), "0.0.0.0:8080");
  ASSERT_EQ(lines.size(), 6u);
  EXPECT_THAT(lines[4], HasSubstr(" --owners_socket unix:/tmp/s/public"));
  EXPECT_EQ(lines[5],
            "gateway: /bin/sluice-gateway --listen 0.0.0.0:8080 --tls_cert c --tls_key k "
            "--orchestrator unix:/tmp/s/public --health_listen unix:/tmp/s/gateway");
}

TEST(ProcessPlanTest, AGatewayIsToldItsNamesAndThatPlaintextIsMeant) {
  const std::vector<std::string> lines =
      CommandLines(Flags({{"insecure_public", "true"}, {"http_hosts", "a.example"}}), "0.0.0.0:80");
  EXPECT_EQ(lines.back(),
            "gateway: /bin/sluice-gateway --listen 0.0.0.0:80 --orchestrator unix:/tmp/s/public "
            "--plaintext=true --allowed_hosts a.example --health_listen unix:/tmp/s/gateway");
}

TEST(ProcessPlanTest, HandsOptionsOnToTheProcessesThatHaveThem) {
  const std::vector<std::string> lines = CommandLines(Flags({{"cors_origin", "*"},
                                                             {"tool_parser", "none"},
                                                             {"max_body_mib", "2"},
                                                             {"batch_dir", "/b"},
                                                             {"batch_token_file", "/t"},
                                                             {"max_model_len", "64"},
                                                             {"chat_template", "t.jinja"},
                                                             {"api_key", "secret"}}),
                                                      "127.0.0.1:80");
  ASSERT_EQ(lines.size(), 6u);
  EXPECT_THAT(lines[0], HasSubstr(" --chat_template t.jinja"));
  EXPECT_THAT(lines[4], HasSubstr(" --max_model_len 64"));
  EXPECT_THAT(lines[5], HasSubstr(" --cors_origin *"));
  EXPECT_THAT(lines[5], HasSubstr(" --tool_parser none"));
  EXPECT_THAT(lines[5], HasSubstr(" --max_body_mib 2"));
  EXPECT_THAT(lines[5], HasSubstr(" --batch_dir /b --batch_token_file /t"));
  for (const std::string& line : lines) {
    EXPECT_THAT(line, Not(HasSubstr("secret")));  // command lines are seen by others
    if (&line != &lines[0]) {
      EXPECT_THAT(line, Not(HasSubstr("t.jinja")));
    }
    if (&line != &lines[4]) {
      EXPECT_THAT(line, Not(HasSubstr("max_model_len")));
    }
  }
}

TEST(ProcessPlanTest, SharesCpusOutAmongRanks) {
  ModelFlags flags = Flags({{"tp", "2"}});
  flags.cpus = {0, 1, 2, 3};
  const std::vector<std::string> lines = CommandLines(flags);
  ASSERT_EQ(lines.size(), 6u);
  for (const int whole : {0, 1, 4, 5}) {
    EXPECT_THAT(lines[whole], HasSubstr(" --cpus 0-3"));
  }
  EXPECT_THAT(lines[2], HasSubstr(" --threads 2 "));  // of the four, one per CPU
  EXPECT_THAT(lines[2], HasSubstr(" --cpus 0-1"));
  EXPECT_THAT(lines[3], HasSubstr(" --cpus 2-3"));
}

TEST(ProcessPlanTest, SharesThreadsAndCpusOutAmongStages) {
  ModelFlags flags = Flags({{"pp", "2"}});
  flags.cpus = {0, 1, 2, 3};
  const std::vector<std::string> lines = CommandLines(flags);
  ASSERT_EQ(lines.size(), 6u);
  EXPECT_THAT(lines[2], HasSubstr(" --threads 2 "));
  EXPECT_THAT(lines[2], HasSubstr(" --cpus 0-1"));
  EXPECT_THAT(lines[3], HasSubstr(" --threads 2 "));
  EXPECT_THAT(lines[3], HasSubstr(" --cpus 2-3"));
}

// Stages compute different steps at the same time, ranks one together; head and table have their
// turn while shards wait.
TEST(ProcessPlanTest, SharesCoresOfSmallAndLargeMachinesOut) {
  struct Case {
    int threads, pp, tp;
    std::string each;
  };
  for (const Case& machine : {Case{2, 2, 1, "1"}, Case{2, 1, 2, "1"}, Case{2, 2, 2, "1"},
                              Case{64, 2, 1, "32"}, Case{64, 1, 2, "32"}, Case{64, 2, 2, "16"}}) {
    const ModelFlags flags = Flags({{"pp", absl::StrCat(machine.pp)},
                                    {"tp", absl::StrCat(machine.tp)},
                                    {"threads", absl::StrCat(machine.threads)}});
    int num_shards = 0;
    for (const std::string& line : CommandLines(flags)) {
      const bool shard = absl::StartsWith(line, "shard-");
      num_shards += shard ? 1 : 0;
      if (!absl::StrContains(line, " --threads ")) continue;
      const std::string threads = shard ? machine.each : absl::StrCat(machine.threads);
      EXPECT_THAT(line + " ", HasSubstr(absl::StrCat(" --threads ", threads, " ")));
    }
    EXPECT_EQ(num_shards, machine.pp * machine.tp);
  }
}

TEST(ProcessPlanTest, GivesEveryRankAThreadAndEveryShardAMebibyte) {
  const ModelFlags flags = Flags(
      {{"tp", "2"}, {"threads", "1"}, {"kv_cache_mib", "1"}, {"rope_scaling", "linear,factor=2"}});
  const std::vector<std::string> lines = CommandLines(flags);
  ASSERT_EQ(lines.size(), 6u);
  for (const std::string& shard : {lines[2], lines[3]}) {
    EXPECT_THAT(shard, HasSubstr("--threads 1 "));
    EXPECT_THAT(shard, HasSubstr("--kv_cache_mib 1"));
    EXPECT_THAT(shard, HasSubstr("--rope_scaling linear,factor=2"));
  }
}

TEST(ProcessPlanTest, TellsWhatComputesWhichDevice) {
  const ModelFlags flags = Flags({{"device", "cpu"}});
  for (const std::string& line : CommandLines(flags)) {
    const bool computes =
        line.find("embedding:") == 0 || line.find("shard") == 0 || line.find("sampler:") == 0;
    EXPECT_EQ(line.find("--device cpu") != std::string::npos, computes) << line;
  }
}

TEST(ProcessPlanTest, TellsWhatComputesHowGpusMayMultiply) {
  if (!BuiltForGpus()) GTEST_SKIP() << "a build without CUDA";
  const ModelFlags flags = Flags({{"device", "cuda"}, {"gpu_instructions", "wgmma"}});
  for (const std::string& line : CommandLines(flags)) {
    EXPECT_EQ(line.find("--gpu_instructions wgmma") != std::string::npos,
              line.find("--device cuda") != std::string::npos)
        << line;
  }
}

TEST(CheckModelFlagsTest, RefusesInstructionsOfGpusWhereNoneComputes) {
  ModelFlags flags = Flags({{"gpu_instructions", "wgmma"}});
  EXPECT_EQ(CheckModelFlags(flags).message(),
            "--gpu_instructions is about GPUs: name them with --device cuda");
  flags.values.Put("device", "cuda");
  EXPECT_EQ(CheckModelFlags(flags).ok(), BuiltForGpus());
}

TEST(ProcessPlanTest, SharesOutTheGpus) {
  if (!BuiltForGpus()) GTEST_SKIP() << "a build without CUDA";
  const ModelFlags flags = Flags({{"tp", "2"}, {"device", "cuda"}});
  const auto lines = [&](int num_gpus) {
    PipelineSpec spec = Spec(flags);
    spec.num_gpus = num_gpus;
    return CommandLines(spec);
  };
  const std::vector<std::string> two = lines(2), one = lines(1);
  ASSERT_EQ(two.size(), 6u);
  EXPECT_THAT(two[1], HasSubstr("--device cuda:0"));
  EXPECT_THAT(two[2],
              AllOf(HasSubstr("--device cuda:0"), HasSubstr("--device_share 0.8"),
                    HasSubstr("--kv_cache_mib 0 "), ::testing::Not(HasSubstr("--kv_dtype"))))
      << "the shard of a GPU keeps bf16 unless asked otherwise";
  EXPECT_THAT(two[3], AllOf(HasSubstr("--device cuda:1"), HasSubstr("--device_share 0.8")));
  EXPECT_THAT(two[4], AllOf(HasSubstr("sampler"), HasSubstr("--device cuda:1")));
  EXPECT_THAT(one[3], AllOf(HasSubstr("--device cuda:0"), HasSubstr("--device_share 0.4")));
}

TEST(ProcessPlanTest, RefusesWhatTheModelCannotBeCutInto) {
  for (const ModelFlags& flags : {Flags({{"tp", "3"}}), Flags({{"pp", "4"}})}) {
    EXPECT_EQ(PlanShards(TinyConfig(), flags).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST(ProcessPlanTest, RefusesMetricsOfMoreProcessesThanThereArePorts) {
  const ModelConfig config = TinyConfig();
  const PipelineSpec spec = Spec(Flags({{"metrics_port", "65000"}}));
  const std::vector<ShardPlan> shards(600, PlanShards(config, spec.flags)->front());
  const absl::Status status = PlanProcesses(spec, config, shards).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "--metrics_port is 65000, and 604 processes take a port each from there on; accepted: "
            "0 to 64932");
}

TEST(ProcessPlanTest, TellsNoProcessOfMoreThreadsThanItTakes) {
  PipelineSpec spec = Spec(Flags({}));
  spec.flags.cpus.resize(1100);
  for (int i = 0; i < 1100; ++i) spec.flags.cpus[i] = i;
  EXPECT_THAT(CommandLines(spec), ::testing::Contains(HasSubstr("--threads 1024")));
}

// A draft model of half the layers: its keys and values take half the memory for as many positions.
TEST(ProcessPlanTest, ADraftModelHasProcessesOfItsOwn) {
  PipelineSpec spec = Spec(Flags({{"threads", "2"},
                                  {"tp", "2"},
                                  {"rope_scaling", "linear,factor=2"},
                                  {"kv_cache_mib", "60"},
                                  {"max_step_tokens", "256"},
                                  {"draft_model", "/small"},
                                  {"draft_weights", "int4"}}));
  spec.draft_config = TinyConfig();
  spec.draft_config->layers.resize(1);
  const std::vector<std::string> lines = CommandLines(spec);
  ASSERT_EQ(lines.size(), 9u);
  EXPECT_EQ(lines[5],
            "draft-embedding: /bin/sluice-embedding --listen unix:/tmp/s/draft-embedding --model "
            "/small --weights int4 --threads 2");
  EXPECT_EQ(lines[6],
            "draft-shard: /bin/sluice-shard --listen unix:/tmp/s/draft-shard --model /small "
            "--num_stages 1 --stage 0 --num_ranks 1 --rank 0 --weights int4 --threads 2 "
            "--kv_cache_mib 20 --max_step_tokens 256");
  EXPECT_EQ(lines[7],
            "draft-sampler: /bin/sluice-sampler --listen unix:/tmp/s/draft-sampler --model /small "
            "--weights int4 --threads 2");
  EXPECT_THAT(lines[8], AllOf(HasSubstr("orchestrator: "),
                              HasSubstr(" --draft_model /small --draft_embedding "
                                        "unix:/tmp/s/draft-embedding --draft_shard "
                                        "unix:/tmp/s/draft-shard --draft_sampler "
                                        "unix:/tmp/s/draft-sampler")));
  spec.flags.values.Put("draft_kv_cache_mib", "7");
  EXPECT_THAT(CommandLines(spec)[6], HasSubstr("--kv_cache_mib 7 "));
}

// Whether the parser that an option's value comes to knows the word; nullopt: the test doesn't know
// it.
std::optional<bool> IsKnown(const std::string& option, const std::string& word) {
  if (option == "weights" || option == "draft_weights") return ParseWeightType(word).ok();
  if (option == "kv_dtype") return ParseKvDType(word).ok();
  if (option == "draft") return ParseDraftMode(word).ok();
  if (option == "draft_policy") return ParseDraftPolicy(word).ok();
  if (option == "log_level") return ParseLogLevel(word).ok();
  if (option == "log_format") return ParseLogFormat(word).ok();
  return std::nullopt;
}

TEST(OptionWordsTest, AreThoseThatParsersKnow) {
  for (const Option& option : kOptions) {
    if (absl::string_view(option.name) == "tool_parser") continue;  // the gateway alone reads it
    if (*option.words == '\0' || (option.programs & (kPipeline | kPlan)) == 0) continue;
    for (const absl::string_view word : absl::StrSplit(option.words, ", ")) {
      EXPECT_EQ(IsKnown(option.name, std::string(word)), true) << option.name << " " << word;
    }
  }
  // Those that say what they accept accept no more.
  const auto accepted = [](Programs program, const char* name) {
    return HasSubstr(absl::StrCat("accepted: ", FindOption(program, name)->words));
  };
  EXPECT_THAT(std::string(ParseWeightType("?").status().message()), accepted(kShard, "weights"));
  EXPECT_THAT(std::string(ParseKvDType("?").status().message()), accepted(kShard, "kv_dtype"));
  EXPECT_THAT(std::string(ParseLogLevel("?").status().message()), accepted(kShard, "log_level"));
  EXPECT_THAT(std::string(ParseLogFormat("?").status().message()), accepted(kShard, "log_format"));
}

}  // namespace
}  // namespace sluice::testing
