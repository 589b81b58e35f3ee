#include "clients/cli/process_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "tests/services/model/model_folder.h"

namespace sluice::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

ModelConfig TinyConfig() { return *ParseModelConfig(TinyLlamaConfig(), "", "test"); }

PipelineSpec Spec(const ModelFlags& flags) {
  return {.bin_folder = "/bin",
          .socket_folder = "/tmp/s",
          .model_folder = "/m",
          .listen = "127.0.0.1:8700",
          .flags = flags,
          .steps = {.max_step_tokens = 256, .max_step_sequences = 8, .max_queued_sequences = 9}};
}

// The command lines, in order, without how each is told where to say why it ends.
std::vector<std::string> CommandLines(const PipelineSpec& spec) {
  const ModelConfig config = TinyConfig();
  const auto shards = PlanShards(config, spec.flags);
  EXPECT_TRUE(shards.ok()) << shards.status();
  std::vector<std::string> lines;
  for (const ProcessSpec& process : PlanProcesses(spec, config, *shards)) {
    const std::string line = absl::StrJoin(process.argv, " ");
    const std::string end = absl::StrCat("/tmp/s/", process.name, ".end");
    EXPECT_EQ(process.termination_log, end);
    EXPECT_TRUE(absl::EndsWith(line, " --termination_log " + end)) << line;
    lines.push_back(process.name + ": " +
                    std::string(absl::StripSuffix(line, " --termination_log " + end)));
  }
  return lines;
}

std::vector<std::string> CommandLines(const ModelFlags& flags, const std::string& http_listen = "",
                                      const std::vector<std::string>& gateway = {}) {
  PipelineSpec spec = Spec(flags);
  spec.http_listen = http_listen;
  spec.gateway = gateway;
  return CommandLines(spec);
}

// The model has 3 layers and 2 KV heads: the stages hold 2 and 1 layers, each rank one head.
TEST(ProcessPlanTest, StartsEveryServiceWithItsFlags) {
  ModelFlags flags;
  flags.tp = 2;
  flags.pp = 2;
  flags.weights = WeightType::kF32;
  flags.kv = DType::kBF16;
  flags.threads = 9;
  flags.kv_cache_mib = 60;
  EXPECT_THAT(
      CommandLines(flags),
      ElementsAre(
          "tokenizer: /bin/sluice-tokenizer --model /m --listen unix:/tmp/s/tokenizer",
          "embedding: /bin/sluice-embedding --model /m --listen unix:/tmp/s/embedding "
          "--weights f32 --threads 9",
          "shard-0-0: /bin/sluice-shard --model /m --listen unix:/tmp/s/shard-0-0 --weights f32 "
          "--threads 2 --num_stages 2 --stage 0 --num_ranks 2 --rank 0 --kv_dtype bf16 "
          "--kv_cache_mib 20 --max_step_tokens 256",
          "shard-0-1: /bin/sluice-shard --model /m --listen unix:/tmp/s/shard-0-1 --weights f32 "
          "--threads 2 --num_stages 2 --stage 0 --num_ranks 2 --rank 1 --kv_dtype bf16 "
          "--kv_cache_mib 20 --max_step_tokens 256",
          "shard-1-0: /bin/sluice-shard --model /m --listen unix:/tmp/s/shard-1-0 --weights f32 "
          "--threads 2 --num_stages 2 --stage 1 --num_ranks 2 --rank 0 --kv_dtype bf16 "
          "--kv_cache_mib 10 --max_step_tokens 256",
          "shard-1-1: /bin/sluice-shard --model /m --listen unix:/tmp/s/shard-1-1 --weights f32 "
          "--threads 2 --num_stages 2 --stage 1 --num_ranks 2 --rank 1 --kv_dtype bf16 "
          "--kv_cache_mib 10 --max_step_tokens 256",
          "sampler: /bin/sluice-sampler --model /m --listen unix:/tmp/s/sampler --weights f32 "
          "--threads 9",
          "orchestrator: /bin/sluice-orchestrator --model /m --listen 127.0.0.1:8700 "
          "--weights f32 --tokenizer unix:/tmp/s/tokenizer "
          "--embedding unix:/tmp/s/embedding "
          "--shards unix:/tmp/s/shard-0-0,unix:/tmp/s/shard-0-1;"
          "unix:/tmp/s/shard-1-0,unix:/tmp/s/shard-1-1 --sampler unix:/tmp/s/sampler "
          "--max_step_tokens 256 --max_step_sequences 8 --max_queued_sequences 9 --draft ngram "
          "--draft_policy measured"));
}

TEST(ProcessPlanTest, EveryProcessIsToldHowLongWorkMayTakeAndAskedForItsHealth) {
  ModelFlags flags;
  flags.hang_timeout = absl::Milliseconds(1500);
  for (const std::string& line : CommandLines(flags)) {
    EXPECT_THAT(line, HasSubstr(" --hang_timeout 1.5s"));
  }
  const ModelConfig config = TinyConfig();
  const auto processes = PlanProcesses({.bin_folder = "/bin",
                                        .socket_folder = "/tmp/s",
                                        .model_folder = "/m",
                                        .listen = "127.0.0.1:8700",
                                        .health = "unix:/tmp/s/health",
                                        .flags = flags},
                                       config, *PlanShards(config, flags));
  EXPECT_EQ(processes.front().health, "unix:/tmp/s/tokenizer");
  EXPECT_EQ(processes.back().health, "unix:/tmp/s/health");
}

TEST(ProcessPlanTest, StartsTheGatewayLastWhereAskedTo) {
  EXPECT_EQ(CommandLines(ModelFlags{}).size(), 5u);
  const std::vector<std::string> lines = CommandLines({}, "127.0.0.1:8080");
  ASSERT_EQ(lines.size(), 6u);
  EXPECT_EQ(lines.back(),
            "gateway: /bin/sluice-gateway --orchestrator 127.0.0.1:8700 --listen 127.0.0.1:8080 "
            "--health_listen unix:/tmp/s/gateway");
}

TEST(ProcessPlanTest, StartsTheGatewayThatKillsWhereADemonstrationIsAskedFor) {
  PipelineSpec spec = Spec({});
  spec.http_listen = "127.0.0.1:8080";
  spec.demo_token_file = "/tmp/s/demo-token";
  EXPECT_EQ(CommandLines(spec).back(),
            "gateway: /bin/sluice-gateway-demo --orchestrator 127.0.0.1:8700 --listen "
            "127.0.0.1:8080 --health_listen unix:/tmp/s/gateway --demo_token_file "
            "/tmp/s/demo-token");
}

TEST(ProcessPlanTest, AllLogAlike) {
  PipelineSpec spec = Spec({});
  spec.flags.log_level = LogLevel::kError;
  spec.log_format = LogFormat::kJson;
  spec.http_listen = "127.0.0.1:8080";
  for (const std::string& line : CommandLines(spec)) {
    EXPECT_THAT(line, HasSubstr(" --log_level error --log_format json"));
  }
}

TEST(ProcessPlanTest, AGatewayWithTlsComesToTheOrchestratorOnASocket) {
  const std::vector<std::string> lines =
      CommandLines({}, "0.0.0.0:8080", {"--tls_cert", "c", "--tls_key", "k"});
  ASSERT_EQ(lines.size(), 6u);
  EXPECT_THAT(lines[4], HasSubstr(" --owners_socket unix:/tmp/s/public"));
  EXPECT_EQ(lines[5],
            "gateway: /bin/sluice-gateway --orchestrator unix:/tmp/s/public --listen 0.0.0.0:8080 "
            "--health_listen unix:/tmp/s/gateway --tls_cert c --tls_key k");
}

TEST(ProcessPlanTest, SharesCpusOutAmongRanks) {
  ModelFlags flags;
  flags.tp = 2;
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
  ModelFlags flags;
  flags.pp = 2;
  flags.cpus = {0, 1, 2, 3};
  const std::vector<std::string> lines = CommandLines(flags);
  ASSERT_EQ(lines.size(), 6u);
  EXPECT_THAT(lines[2], HasSubstr(" --threads 2 "));
  EXPECT_THAT(lines[2], HasSubstr(" --cpus 0-1"));
  EXPECT_THAT(lines[3], HasSubstr(" --threads 2 "));
  EXPECT_THAT(lines[3], HasSubstr(" --cpus 2-3"));
}

// Stages compute different steps at the same time, ranks one together; head and table have their turn
// while shards wait.
TEST(ProcessPlanTest, SharesCoresOfSmallAndLargeMachinesOut) {
  struct Case {
    int threads, pp, tp;
    std::string each;
  };
  for (const Case& machine : {Case{2, 2, 1, "1"}, Case{2, 1, 2, "1"}, Case{2, 2, 2, "1"},
                              Case{64, 2, 1, "32"}, Case{64, 1, 2, "32"}, Case{64, 2, 2, "16"}}) {
    ModelFlags flags;
    flags.pp = machine.pp;
    flags.tp = machine.tp;
    flags.threads = machine.threads;
    int num_shards = 0;
    for (const std::string& line : CommandLines(flags)) {
      const bool shard = absl::StartsWith(line, "shard-");
      num_shards += shard ? 1 : 0;
      if (!absl::StrContains(line, " --threads ")) continue;
      EXPECT_THAT(line, HasSubstr(absl::StrCat(
                            " --threads ", shard ? machine.each : absl::StrCat(machine.threads))));
    }
    EXPECT_EQ(num_shards, machine.pp * machine.tp);
  }
}

TEST(ProcessPlanTest, GivesEveryRankAThreadAndEveryShardAMebibyte) {
  ModelFlags flags;
  flags.tp = 2;
  flags.threads = 1;
  flags.kv_cache_mib = 1;
  flags.rope_scaling = "linear,factor=2";
  const std::vector<std::string> lines = CommandLines(flags);
  ASSERT_EQ(lines.size(), 6u);
  for (const std::string& shard : {lines[2], lines[3]}) {
    EXPECT_THAT(shard, HasSubstr("--threads 1 "));
    EXPECT_THAT(shard, HasSubstr("--kv_cache_mib 1"));
    EXPECT_THAT(shard, HasSubstr("--rope_scaling linear,factor=2"));
  }
}

TEST(ProcessPlanTest, TellsWhatComputesWhichDevice) {
  ModelFlags flags;
  flags.device = DeviceId{};
  for (const std::string& line : CommandLines(flags)) {
    const bool computes =
        line.find("embedding:") == 0 || line.find("shard") == 0 || line.find("sampler:") == 0;
    EXPECT_EQ(line.find("--device cpu") != std::string::npos, computes) << line;
  }
}

TEST(ProcessPlanTest, TellsWhatComputesHowGpusMayMultiply) {
  ModelFlags flags;
  flags.device = DeviceId{.kind = DeviceKind::kCuda};
  flags.gpu_products = GpuProducts::kHopper;
  for (const std::string& line : CommandLines(flags)) {
    EXPECT_EQ(line.find("--gpu_instructions wgmma") != std::string::npos,
              line.find("--device cuda") != std::string::npos)
        << line;
  }
}

TEST(CheckModelFlagsTest, RefusesInstructionsOfGpusWhereNoneComputes) {
  ModelFlags flags;
  flags.gpu_products = GpuProducts::kHopper;
  EXPECT_EQ(CheckModelFlags(flags).message(),
            "--gpu_instructions is about GPUs: name them with --device cuda");
  flags.device = DeviceId{.kind = DeviceKind::kCuda};
  EXPECT_TRUE(CheckModelFlags(flags).ok());
}

TEST(ProcessPlanTest, SharesOutTheGpus) {
  ModelFlags flags;
  flags.tp = 2;
  flags.device = DeviceId{.kind = DeviceKind::kCuda};
  const auto lines = [&](int num_gpus) {
    PipelineSpec spec = Spec(flags);
    spec.num_gpus = num_gpus;
    return CommandLines(spec);
  };
  const std::vector<std::string> two = lines(2), one = lines(1);
  ASSERT_EQ(two.size(), 6u);
  EXPECT_THAT(two[1], HasSubstr("--device cuda:0"));
  EXPECT_THAT(two[2], AllOf(HasSubstr("--device cuda:0"), HasSubstr("--device_share 0.8"),
                            HasSubstr("--kv_dtype bf16"), HasSubstr("--kv_cache_mib 0 ")));
  EXPECT_THAT(two[3], AllOf(HasSubstr("--device cuda:1"), HasSubstr("--device_share 0.8")));
  EXPECT_THAT(two[4], AllOf(HasSubstr("sampler"), HasSubstr("--device cuda:1")));
  EXPECT_THAT(one[3], AllOf(HasSubstr("--device cuda:0"), HasSubstr("--device_share 0.4")));
}

TEST(ProcessPlanTest, RefusesWhatTheModelCannotBeCutInto) {
  ModelFlags ranks;
  ranks.tp = 3;
  EXPECT_EQ(PlanShards(TinyConfig(), ranks).status().code(), absl::StatusCode::kInvalidArgument);
  ModelFlags stages;
  stages.pp = 4;
  EXPECT_EQ(PlanShards(TinyConfig(), stages).status().code(), absl::StatusCode::kInvalidArgument);
}

// A draft model of half the layers: its keys and values take half the memory for as many positions.
TEST(ProcessPlanTest, ADraftModelHasProcessesOfItsOwn) {
  ModelFlags flags;
  flags.threads = 2;
  flags.tp = 2;
  flags.rope_scaling = "linear,factor=2";
  flags.kv_cache_mib = 60;
  flags.draft_model = "/small";
  flags.draft_weights = WeightType::kInt4;
  PipelineSpec spec = Spec(flags);
  spec.draft_config = TinyConfig();
  spec.draft_config->layers.resize(1);
  const std::vector<std::string> lines = CommandLines(spec);
  ASSERT_EQ(lines.size(), 9u);
  EXPECT_EQ(lines[5],
            "draft-embedding: /bin/sluice-embedding --model /small --listen unix:/tmp/s/"
            "draft-embedding --weights int4 --threads 2");
  EXPECT_EQ(lines[6],
            "draft-shard: /bin/sluice-shard --model /small --listen unix:/tmp/s/draft-shard "
            "--weights int4 --threads 2 --num_stages 1 --stage 0 --num_ranks 1 --rank 0 "
            "--kv_dtype f32 --kv_cache_mib 20 --max_step_tokens 256");
  EXPECT_EQ(lines[7],
            "draft-sampler: /bin/sluice-sampler --model /small --listen unix:/tmp/s/draft-sampler "
            "--weights int4 --threads 2");
  EXPECT_THAT(lines[8], AllOf(HasSubstr("orchestrator: "),
                              HasSubstr(" --draft_model /small --draft_embedding "
                                        "unix:/tmp/s/draft-embedding --draft_shard "
                                        "unix:/tmp/s/draft-shard --draft_sampler "
                                        "unix:/tmp/s/draft-sampler")));
  spec.flags.draft_kv_mib = 7;
  EXPECT_THAT(CommandLines(spec)[6], HasSubstr("--kv_cache_mib 7 "));
}

}  // namespace
}  // namespace sluice::testing
