#include "clients/cli/process_plan.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "kernels/gpu/gpu_check.h"
#include "services/common/cpu_list.h"

namespace sluice {
namespace {

using Arguments = std::vector<std::string>;

// The shard's part of the memory, rounded up to whole MiB.
uint64_t KvCacheMib(const PipelineSpec& spec, const ModelConfig& config, const ShardPlan& shard) {
  if (spec.flags.kv_cache_size_mib() == 0) return 0;
  const auto part = static_cast<double>(shard.layers.size() * shard.kv_heads.size());
  const double all = static_cast<double>(config.num_layers()) * config.num_kv_heads;
  const double mib = static_cast<double>(spec.flags.kv_cache_size_mib()) * part / all;
  return std::max<uint64_t>(1, static_cast<uint64_t>(mib + 0.999999));
}

class Planner {
 public:
  explicit Planner(const PipelineSpec& spec) : spec_(spec) {}

  // `program` without its prefix, listening on a socket named like the process.
  ProcessSpec Internal(const std::string& program, const std::string& name,
                       const Arguments& further) const {
    return WithListener(program, name, SocketOf(name), spec_.flags.cpus, further);
  }

  ProcessSpec Shard(const ShardPlacement& placement, const Arguments& further) const {
    const std::string name = ShardName(placement);
    return WithListener(
        "shard", name, SocketOf(name),
        CpusOfShard(spec_.flags.cpus, placement.stage * placement.num_ranks + placement.rank,
                    placement.num_stages * placement.num_ranks),
        further);
  }

  ProcessSpec Orchestrator(const Arguments& further) const {
    ProcessSpec process =
        WithListener("orchestrator", "orchestrator", spec_.listen, spec_.flags.cpus, further);
    process.health = spec_.health;
    if (const std::string socket = GatewaySocket(); !socket.empty()) {
      process.argv.insert(process.argv.end(), {"--owners_socket", socket});
    }
    return process;
  }

  ProcessSpec Gateway() const {
    const std::string orchestrator = GatewaySocket();
    ProcessSpec process{
        .name = "gateway",
        .argv = {absl::StrCat(spec_.bin_folder, spec_.demo_token_file.empty()
                                                    ? "/sluice-gateway"
                                                    : "/sluice-gateway-demo"),
                 "--orchestrator", orchestrator.empty() ? spec_.listen : orchestrator, "--listen",
                 spec_.http_listen, "--health_listen", SocketOf("gateway")},
        .health = SocketOf("gateway")};
    process.argv.insert(process.argv.end(), spec_.gateway.begin(), spec_.gateway.end());
    process.argv.insert(process.argv.end(), spec_.telemetry.begin(), spec_.telemetry.end());
    if (spec_.memory_limit != std::numeric_limits<uint64_t>::max()) {
      // The model's processes need most of what all of them share.
      const uint64_t mib = std::clamp<uint64_t>(spec_.memory_limit >> 23, 64, 1 << 20);
      process.argv.insert(process.argv.end(), {"--memory_mib", absl::StrCat(mib)});
    }
    if (!spec_.demo_token_file.empty()) {
      process.argv.insert(process.argv.end(), {"--demo_token_file", spec_.demo_token_file});
    }
    AddLogFlags(process);
    return process;
  }

  // Where the gateway reaches the orchestrator; empty: where clients do.
  std::string GatewaySocket() const { return spec_.gateway.empty() ? "" : SocketOf("public"); }

  // Of shard `number`, or of a process that computes beside it.
  Arguments Arithmetic(int threads, int number) const {
    Arguments arguments = {"--weights", Name(spec_.flags.weight_type()), "--threads",
                           absl::StrCat(threads)};
    if (spec_.flags.device.has_value()) {
      const DeviceId device = DeviceOfProcess(*spec_.flags.device, number, spec_.num_gpus);
      arguments.insert(arguments.end(), {"--device", Name(device)});
    }
    if (spec_.flags.gpu_products.has_value()) {
      arguments.insert(arguments.end(), {"--gpu_instructions", Name(*spec_.flags.gpu_products)});
    }
    return arguments;
  }

  // What a shard may take of its GPU, which it shares with others of them, the head and the table.
  Arguments DeviceShare(int num_shards) const {
    if (!spec_.flags.on_gpu()) return {};
    const int sharers = ProcessesOnDevice(*spec_.flags.device, num_shards, spec_.num_gpus);
    return {"--device_share", absl::StrCat(DeviceShareOf(sharers))};
  }

  // What computes matrix products, where that was asked for.
  Arguments Products() const {
    if (!spec_.flags.instructions.has_value()) return {};
    return {"--instructions", std::string(Name(*spec_.flags.instructions))};
  }

  std::string SocketOf(const std::string& name) const {
    return absl::StrCat("unix:", spec_.socket_folder, "/", name);
  }

  // Ranks by comma, stages by semicolon.
  std::string ShardAddresses(const std::vector<ShardPlan>& shards) const {
    std::string addresses;
    for (const ShardPlan& shard : shards) {
      const char* separator = shard.placement.rank > 0 ? "," : ";";
      absl::StrAppend(&addresses, addresses.empty() ? "" : separator,
                      SocketOf(ShardName(shard.placement)));
    }
    return addresses;
  }

 private:
  void AddLogFlags(ProcessSpec& process) const {
    if (spec_.flags.log_level.has_value()) {
      process.argv.insert(process.argv.end(),
                          {"--log_level", std::string(Name(*spec_.flags.log_level))});
    }
    if (spec_.log_format != LogFormat::kText) {
      process.argv.insert(process.argv.end(),
                          {"--log_format", std::string(Name(spec_.log_format))});
    }
  }

  ProcessSpec WithListener(const std::string& program, const std::string& name,
                           const std::string& address, const std::vector<int>& cpus,
                           const Arguments& further) const {
    ProcessSpec process{.name = name,
                        .argv = {absl::StrCat(spec_.bin_folder, "/sluice-", program), "--model",
                                 spec_.model_folder, "--listen", address},
                        .health = address};
    process.argv.insert(process.argv.end(), further.begin(), further.end());
    if (spec_.flags.rope_scaling.has_value()) {
      process.argv.insert(process.argv.end(), {"--rope_scaling", *spec_.flags.rope_scaling});
    }
    AddLogFlags(process);
    if (!cpus.empty()) {
      process.argv.insert(process.argv.end(), {"--cpus", CpuListText(cpus)});
    }
    if (spec_.flags.hang_timeout.has_value()) {
      process.argv.insert(process.argv.end(),
                          {"--hang_timeout", absl::FormatDuration(*spec_.flags.hang_timeout)});
    }
    return process;
  }

  const PipelineSpec& spec_;
};

Arguments ShardArguments(const ShardPlacement& placement, const PipelineSpec& spec,
                         uint64_t kv_cache_mib) {
  return {"--num_stages",
          absl::StrCat(placement.num_stages),
          "--stage",
          absl::StrCat(placement.stage),
          "--num_ranks",
          absl::StrCat(placement.num_ranks),
          "--rank",
          absl::StrCat(placement.rank),
          "--kv_dtype",
          KvDTypeName(spec.flags.kv_dtype()),
          "--kv_cache_mib",
          absl::StrCat(kv_cache_mib),
          "--max_step_tokens",
          absl::StrCat(spec.steps.max_step_tokens)};
}

Arguments OrchestratorArguments(const PipelineSpec& spec, const Planner& planner,
                                const std::vector<ShardPlan>& shards) {
  Arguments arguments = {"--weights",
                         Name(spec.flags.weight_type()),
                         "--tokenizer",
                         planner.SocketOf("tokenizer"),
                         "--embedding",
                         planner.SocketOf("embedding"),
                         "--shards",
                         planner.ShardAddresses(shards),
                         "--sampler",
                         planner.SocketOf("sampler"),
                         "--max_step_tokens",
                         absl::StrCat(spec.steps.max_step_tokens),
                         "--max_step_sequences",
                         absl::StrCat(spec.steps.max_step_sequences),
                         "--max_queued_sequences",
                         absl::StrCat(spec.steps.max_queued_sequences),
                         "--draft",
                         std::string(Name(spec.flags.draft_mode())),
                         "--draft_policy",
                         std::string(Name(spec.flags.draft_policy()))};
  if (spec.draft_config.has_value()) {
    const Arguments draft = {"--draft_model",     *spec.flags.draft_model,
                             "--draft_embedding", planner.SocketOf("draft-embedding"),
                             "--draft_shard",     planner.SocketOf("draft-shard"),
                             "--draft_sampler",   planner.SocketOf("draft-sampler")};
    arguments.insert(arguments.end(), draft.begin(), draft.end());
  }
  arguments.insert(arguments.end(), spec.listener.begin(), spec.listener.end());
  arguments.insert(arguments.end(), spec.telemetry.begin(), spec.telemetry.end());
  return arguments;
}

// The draft model takes turns with the served one, so that each of its processes has every core.
void AddDraftModel(const PipelineSpec& spec, const ModelConfig& config,
                   std::vector<ProcessSpec>& processes) {
  if (!spec.draft_config.has_value()) return;
  PipelineSpec draft = spec;
  draft.model_folder = *spec.flags.draft_model;
  draft.flags = FlagsOfDraftModel(spec.flags);
  const Planner planner(draft);
  Arguments head = planner.Arithmetic(spec.flags.num_threads(), /*number=*/0);
  const Arguments table = head;
  const Arguments products = planner.Products();
  head.insert(head.end(), products.begin(), products.end());
  Arguments shard = head;
  const Arguments placement =
      ShardArguments({}, draft, DraftKvMib(spec.flags, config, *spec.draft_config));
  shard.insert(shard.end(), placement.begin(), placement.end());
  processes.push_back(planner.Internal("embedding", "draft-embedding", table));
  processes.push_back(planner.Internal("shard", "draft-shard", shard));
  processes.push_back(planner.Internal("sampler", "draft-sampler", head));
}

// Beside the sockets: what each process says when it ends by itself.
void AddTerminationLogs(const std::string& folder, std::vector<ProcessSpec>& processes) {
  for (ProcessSpec& process : processes) {
    process.termination_log = absl::StrCat(folder, "/", process.name, ".end");
    process.argv.insert(process.argv.end(), {"--termination_log", process.termination_log});
  }
}

// The orchestrator, which is the last, on `port`; the others on those after it.
void AddMetricsPorts(int port, const std::string& host, std::vector<ProcessSpec>& processes) {
  for (size_t i = 0; i < processes.size(); ++i) {
    const int offset = static_cast<int>((i + 1) % processes.size());
    processes[i].argv.insert(
        processes[i].argv.end(),
        {"--metrics_port", absl::StrCat(port + offset), "--metrics_host", host});
  }
}

}  // namespace

std::string ShardName(const ShardPlacement& placement) {
  return absl::StrCat("shard-", placement.stage, "-", placement.rank);
}

absl::StatusOr<std::vector<ShardPlan>> PlanShards(const ModelConfig& config,
                                                  const ModelFlags& flags) {
  std::vector<ShardPlan> plans;
  for (int stage = 0; stage < flags.num_stages(); ++stage) {
    for (int rank = 0; rank < flags.num_ranks(); ++rank) {
      absl::StatusOr<ShardPlan> plan = MakeShardPlan(config, {.num_stages = flags.num_stages(),
                                                              .num_ranks = flags.num_ranks(),
                                                              .stage = stage,
                                                              .rank = rank});
      if (!plan.ok()) return plan.status();
      plans.push_back(*std::move(plan));
    }
  }
  return plans;
}

std::vector<ProcessSpec> PlanProcesses(const PipelineSpec& spec, const ModelConfig& config,
                                       const std::vector<ShardPlan>& shards) {
  const Planner planner(spec);
  const int threads = spec.flags.num_threads();
  // Stages compute different steps at the same time.
  const int threads_per_shard = std::max(1, threads / static_cast<int>(shards.size()));
  std::vector<ProcessSpec> processes;
  processes.push_back(planner.Internal("tokenizer", "tokenizer", {}));
  processes.push_back(
      planner.Internal("embedding", "embedding", planner.Arithmetic(threads, /*number=*/0)));
  for (size_t number = 0; number < shards.size(); ++number) {
    const ShardPlan& shard = shards[number];
    Arguments arguments = planner.Arithmetic(threads_per_shard, static_cast<int>(number));
    const Arguments placement =
        ShardArguments(shard.placement, spec, KvCacheMib(spec, config, shard));
    arguments.insert(arguments.end(), placement.begin(), placement.end());
    const Arguments share = planner.DeviceShare(static_cast<int>(shards.size()));
    arguments.insert(arguments.end(), share.begin(), share.end());
    const Arguments products = planner.Products();
    arguments.insert(arguments.end(), products.begin(), products.end());
    processes.push_back(planner.Shard(shard.placement, arguments));
  }
  // The head is short work beside the layers: done sooner with every core. Where the last rows are.
  Arguments head = planner.Arithmetic(threads, static_cast<int>(shards.size()) - 1);
  const Arguments products = planner.Products();
  head.insert(head.end(), products.begin(), products.end());
  processes.push_back(planner.Internal("sampler", "sampler", head));
  AddDraftModel(spec, config, processes);
  processes.push_back(planner.Orchestrator(OrchestratorArguments(spec, planner, shards)));
  if (spec.metrics_port > 0) AddMetricsPorts(spec.metrics_port, spec.metrics_host, processes);
  if (!spec.http_listen.empty()) processes.push_back(planner.Gateway());
  AddTerminationLogs(spec.socket_folder, processes);
  return processes;
}

}  // namespace sluice
