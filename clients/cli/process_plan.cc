#include "clients/cli/process_plan.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/gpu/gpu_check.h"
#include "kernels/state_format.h"
#include "services/model/memory_plan.h"
#include "services/process/cpu_list.h"

namespace sluice {
namespace {

// What --threads accepts; a machine may have more cores.
constexpr int kMostThreads = 1024;
constexpr int kLastPort = 65535;

// A shard's part of the memory, rounded up to whole MiB, and the slots for states in it.
struct KvPart {
  uint64_t mib = 0;
  uint64_t num_state_slots = 0;
};

// So that each shard has room for as many blocks and slots as the others.
KvPart KvPartOf(const PipelineSpec& spec, const ModelConfig& config, const ShardPlan& shard) {
  const uint64_t whole_mib = spec.flags.kv_cache_size_mib();
  if (whole_mib == 0) return {};
  const DType dtype = spec.flags.kv_dtype();
  const uint64_t all_keys =
      KvBytesPerPosition(config, dtype) * KvCopies(config, shard.placement.num_ranks);
  const uint64_t all_states = StateSlotBytes(config);
  const KvRoom room =
      DivideKvBytes(whole_mib << 20, std::max<uint64_t>(1, all_keys * StatePoolSpec::kRun),
                    all_states, static_cast<uint64_t>(spec.flags.values.Get<int>("state_slots")));
  const auto bytes = [&](uint64_t keys, uint64_t state) {
    // One where not one fits: the shard says what would.
    const uint64_t blocks = std::max<uint64_t>(1, room.num_blocks);
    return static_cast<double>(blocks) * static_cast<double>(keys * StatePoolSpec::kRun) +
           static_cast<double>(room.num_state_slots) * static_cast<double>(state);
  };
  const double part =
      bytes(KvBytesPerPosition(config, shard, dtype), StateSlotBytes(config, shard)) /
      bytes(all_keys, all_states);
  const double mib = static_cast<double>(whole_mib) * part;
  return {.mib = std::max<uint64_t>(1, static_cast<uint64_t>(mib + 0.999999)),
          .num_state_slots = room.num_state_slots};
}

class Planner {
 public:
  explicit Planner(const PipelineSpec& spec) : spec_(spec), given_(spec.flags.values) {}

  std::string SocketOf(const std::string& name) const {
    return absl::StrCat("unix:", spec_.socket_folder, "/", name);
  }

  // The options of a process of the replica that listens at `address`.
  OptionValues Told(Programs program, const std::string& address,
                    const std::vector<int>& cpus) const {
    OptionValues told = given_.ForChild(program);
    told.Put("model", spec_.model_folder);
    told.Put("listen", address);
    if (!cpus.empty()) told.Put("cpus", CpuListText(cpus));
    return told;
  }

  // The same of shard `number`, or of a process that computes beside it.
  OptionValues Computing(Programs program, const std::string& name, int threads, int number,
                         const std::vector<int>& cpus) const {
    OptionValues told = Told(program, SocketOf(name), cpus);
    told.Put("threads", absl::StrCat(std::min(threads, kMostThreads)));
    if (given_.IsGiven("device")) {
      told.Put("device", Name(DeviceOfProcess(spec_.flags.device(), number, spec_.num_gpus)));
    }
    return told;
  }

  OptionValues Shard(const std::string& name, const ShardPlacement& placement, int threads,
                     const KvPart& kv) const {
    const int number = placement.stage * placement.num_ranks + placement.rank;
    const int num_shards = placement.num_stages * placement.num_ranks;
    OptionValues told =
        Computing(kShard, name, threads, number, CpusOfShard(spec_.flags.cpus, number, num_shards));
    told.Put("num_stages", absl::StrCat(placement.num_stages));
    told.Put("stage", absl::StrCat(placement.stage));
    told.Put("num_ranks", absl::StrCat(placement.num_ranks));
    told.Put("rank", absl::StrCat(placement.rank));
    told.Put("kv_cache_mib", absl::StrCat(kv.mib));
    if (kv.num_state_slots > 0) told.Put("state_slots", absl::StrCat(kv.num_state_slots));
    return told;
  }

  OptionValues Orchestrator(const std::vector<ShardPlan>& shards) const {
    OptionValues told = Told(kOrchestrator, spec_.listen, spec_.flags.cpus);
    told.Put("tokenizer", SocketOf("tokenizer"));
    told.Put("embedding", SocketOf("embedding"));
    told.Put("shards", ShardAddresses(shards));
    told.Put("sampler", SocketOf("sampler"));
    if (spec_.draft_config.has_value()) {
      told.Put("draft_model", spec_.flags.draft_model());
      told.Put("draft_embedding", SocketOf("draft-embedding"));
      told.Put("draft_shard", SocketOf("draft-shard"));
      told.Put("draft_sampler", SocketOf("draft-sampler"));
    }
    const std::string further = Text("health_listen");
    if (!spec_.health.empty()) {
      told.Put("health_listen", absl::StrCat(spec_.health, further.empty() ? "" : ",", further));
    }
    HandOn("tls_cert", "public_tls_cert", told);
    HandOn("tls_key", "public_tls_key", told);
    HandOn("tls_ca", "public_tls_ca", told);
    HandOn("drain_delay", "drain_delay", told);
    HandOn("drain_timeout", "drain_timeout", told);
    if (const std::string socket = GatewaySocket(); !socket.empty()) {
      told.Put("owners_socket", socket);
    }
    return told;
  }

  OptionValues Gateway(const std::string& model_host) const {
    OptionValues told = given_.ForChild(GatewayProgram());
    if (model_host.empty()) {
      told.Put("orchestrator", AddressForGateway());
    } else {
      told.Put("model_host", model_host);
    }
    told.Put("listen", spec_.http_listen);
    told.Put("health_listen", SocketOf("gateway"));
    if (!IsHttps() && given_.Get<bool>("insecure_public")) told.Put("plaintext", "true");
    HandOn("http_hosts", "allowed_hosts", told);
    if (spec_.memory_limit != std::numeric_limits<uint64_t>::max()) {
      // The model's processes need most of what all of them share.
      const uint64_t mib = std::clamp<uint64_t>(spec_.memory_limit >> 23, 64, 1 << 20);
      told.Put("memory_mib", absl::StrCat(mib));
    }
    if (!spec_.demo_token_file.empty()) told.Put("demo_token_file", spec_.demo_token_file);
    return told;
  }

  std::string AddressForGateway() const {
    const std::string own = GatewaySocket();
    return own.empty() ? spec_.listen : own;
  }

  Programs GatewayProgram() const {
    return spec_.demo_token_file.empty() ? kPlainGateway : kDemoGateway;
  }

  // `program` without its prefix.
  ProcessSpec Process(const std::string& program, const std::string& name, OptionValues told,
                      const std::string& health) const {
    ProcessSpec process{.name = name,
                        .argv = {absl::StrCat(spec_.bin_folder, "/sluice-", program)},
                        .health = health};
    // Beside the sockets: what each process says when it ends by itself.
    process.termination_log = absl::StrCat(spec_.socket_folder, "/", name, ".end");
    told.Put("termination_log", process.termination_log);
    const std::vector<std::string> arguments = told.Arguments();
    process.argv.insert(process.argv.end(), arguments.begin(), arguments.end());
    return process;
  }

 private:
  std::string Text(OptionName<std::string> name) const { return given_.Get(name); }
  bool IsHttps() const { return !Text("tls_cert").empty(); }

  // Where the gateway reaches the orchestrator; empty: where clients do.
  std::string GatewaySocket() const {
    const bool apart =
        IsHttps() || given_.Get<bool>("insecure_public") || !given_.TextOf("http_hosts").empty();
    const bool needs_own = apart && !spec_.http_listen.empty() && !spec_.reached_by_gateway_alone;
    return needs_own ? SocketOf("public") : "";
  }

  // What was given by one name, by another.
  void HandOn(OptionName<void> from, OptionName<void> to, OptionValues& told) const {
    if (given_.IsGiven(from)) told.Put(to, given_.TextOf(from));
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

  const PipelineSpec& spec_;
  const OptionValues& given_;
};

// The processes with their options, in the order of PlanProcesses. The gateway's program also depends
// on whether the page may kill processes.
struct Planned {
  std::string program, name;
  OptionValues told;
  std::string health;
};

// The draft model takes turns with the served one, so that each of its processes has every core.
void AddDraftModel(const PipelineSpec& spec, const ModelConfig& config,
                   std::vector<Planned>& processes) {
  if (!spec.draft_config.has_value()) return;
  PipelineSpec draft = spec;
  draft.model_folder = spec.flags.draft_model();
  draft.flags = FlagsOfDraftModel(spec.flags);
  const Planner planner(draft);
  const int threads = spec.flags.num_threads();
  const auto add = [&](const char* program, OptionValues told) {
    const std::string name = absl::StrCat("draft-", program);
    processes.push_back({program, name, std::move(told), planner.SocketOf(name)});
  };
  add("embedding", planner.Computing(kEmbedding, "draft-embedding", threads, 0, spec.flags.cpus));
  add("shard", planner.Shard("draft-shard", {}, threads,
                             {.mib = DraftKvMib(spec.flags, config, *spec.draft_config)}));
  add("sampler", planner.Computing(kSampler, "draft-sampler", threads, 0, spec.flags.cpus));
}

// The orchestrator, which is the last, on --metrics_port; the others on those after it.
// INVALID_ARGUMENT where there are not so many ports.
absl::Status SetMetricsPorts(const OptionValues& given, std::vector<Planned>& processes) {
  const int port = given.Get<int>("metrics_port");
  if (port == 0) return absl::OkStatus();
  const auto num_processes = static_cast<int>(processes.size());
  if (const int most = kLastPort - (num_processes - 1); port > most) {
    return absl::InvalidArgumentError(absl::StrCat("--metrics_port is ", port, ", and ",
                                                   num_processes,
                                                   " processes take a port each from there on; "
                                                   "accepted: 0 to ",
                                                   most));
  }
  for (int i = 0; i < num_processes; ++i) {
    processes[i].told.Put("metrics_port", absl::StrCat(port + (i + 1) % num_processes));
    processes[i].told.Put("metrics_host", given.Get<std::string>("metrics_host"));
  }
  return absl::OkStatus();
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

std::string AddressForGateway(const PipelineSpec& spec) {
  return Planner(spec).AddressForGateway();
}

ProcessSpec PlanGateway(const PipelineSpec& spec, const std::string& model_host) {
  const Planner planner(spec);
  return planner.Process(planner.GatewayProgram() == kDemoGateway ? "gateway-demo" : "gateway",
                         "gateway", planner.Gateway(model_host), planner.SocketOf("gateway"));
}

absl::StatusOr<std::vector<ProcessSpec>> PlanProcesses(const PipelineSpec& spec,
                                                       const ModelConfig& config,
                                                       const std::vector<ShardPlan>& shards) {
  absl::StatusOr<std::vector<ProcessSpec>> processes = PlanReplica(spec, config, shards);
  if (processes.ok() && !spec.http_listen.empty()) processes->push_back(PlanGateway(spec));
  return processes;
}

absl::StatusOr<std::vector<ProcessSpec>> PlanReplica(const PipelineSpec& spec,
                                                     const ModelConfig& config,
                                                     const std::vector<ShardPlan>& shards) {
  const Planner planner(spec);
  const std::vector<int>& cpus = spec.flags.cpus;
  const int threads = spec.flags.num_threads();
  const int num_shards = static_cast<int>(shards.size());
  // Stages compute different steps at the same time.
  const int threads_per_shard = std::max(1, threads / num_shards);
  std::vector<Planned> processes;
  const auto add = [&](const char* program, const std::string& name, OptionValues told) {
    processes.push_back({program, name, std::move(told), planner.SocketOf(name)});
  };
  add("tokenizer", "tokenizer", planner.Told(kTokenizer, planner.SocketOf("tokenizer"), cpus));
  add("embedding", "embedding",
      planner.Computing(kEmbedding, "embedding", threads, /*number=*/0, cpus));
  for (const ShardPlan& shard : shards) {
    const std::string name = ShardName(shard.placement);
    OptionValues told =
        planner.Shard(name, shard.placement, threads_per_shard, KvPartOf(spec, config, shard));
    if (spec.flags.on_gpu()) {
      // It shares its GPU with others of them, the head and the table.
      const int sharers = ProcessesOnDevice(spec.flags.device(), num_shards, spec.num_gpus);
      told.Put("device_share", absl::StrCat(DeviceShareOf(sharers)));
    }
    add("shard", name, std::move(told));
  }
  // The head is short work beside the layers: done sooner with every core. Where the last rows are.
  add("sampler", "sampler", planner.Computing(kSampler, "sampler", threads, num_shards - 1, cpus));
  AddDraftModel(spec, config, processes);
  processes.push_back({"orchestrator", "orchestrator", planner.Orchestrator(shards), spec.health});
  if (absl::Status ports = SetMetricsPorts(spec.flags.values, processes); !ports.ok()) return ports;
  std::vector<ProcessSpec> specs;
  for (Planned& process : processes) {
    specs.push_back(
        planner.Process(process.program, process.name, std::move(process.told), process.health));
  }
  return specs;
}

}  // namespace sluice
