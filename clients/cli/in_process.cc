#include "clients/cli/in_process.h"

#include <grpcpp/server.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "clients/cli/model_flags.h"
#include "kernels/usable_cpus.h"
#include "orchestrator/orchestrator_server.h"
#include "services/common/steady_time.h"
#include "services/embedding/embedding_server.h"
#include "services/model_server/gpu_faults.h"
#include "services/process/cpu_list.h"
#include "services/process/log.h"
#include "services/sampler/sampler_server.h"
#include "services/shard/shard_server.h"
#include "services/tokenizer/tokenizer_server.h"

namespace sluice {
namespace {

constexpr absl::Duration kStartTimeout = absl::Seconds(30);

// Of every service's work; what does not come back ends this process.
absl::Duration HangTimeout(const InProcessOptions& options) {
  return options.values.Get<absl::Duration>("hang_timeout");
}

// Registers a server under a name by which the others dial it.
std::string Reachable(Dialer& dialer, const std::string& name, RunningService& service) {
  dialer.RegisterInProcess(name, service.server().grpc_server());
  return "inproc:" + name;
}

// Embedding, shards and sampler of one model.
class Stages {
 public:
  // Borrows the dialer. The servers' names begin with `prefix`.
  Stages(Dialer* dialer, std::string prefix) : dialer_(*dialer), prefix_(std::move(prefix)) {}

  // Where they are reached. Errors of loading.
  absl::StatusOr<Topology> Start(const InProcessOptions& options);

 private:
  // What the stages share.
  struct Arrangement {
    int num_threads;
    int num_shards;
    int num_gpus;
  };

  // That of process `number`, were each a process.
  DeviceOptions DeviceOf(const InProcessOptions& options, const Arrangement& arrangement,
                         int number, CpuBackendOptions cpu) const;
  absl::Status StartSampler(const InProcessOptions& options, const Arrangement& arrangement,
                            Topology& topology);
  absl::Status StartShard(const InProcessOptions& options, const Arrangement& arrangement,
                          ShardPlacement placement, Topology& topology);
  absl::Status StartEmbedding(const InProcessOptions& options, const Arrangement& arrangement,
                              Topology& topology);

  std::string AddressOf(const std::string& name) const {
    return absl::StrCat("inproc:", prefix_, name);
  }
  std::string Reach(const std::string& name, RunningService& service) {
    return Reachable(dialer_, prefix_ + name, service);
  }

  Dialer& dialer_;
  const std::string prefix_;
  std::unique_ptr<ModelServer> sampler_;
  std::vector<std::unique_ptr<ModelServer>> shards_;
  std::unique_ptr<ModelServer> embedding_;
};

class Pipeline final : public InProcessPipeline {
 public:
  absl::Status Start(const InProcessOptions& options);

  std::shared_ptr<grpc::Channel> channel() override { return channel_; }

 private:
  // Nothing where no model drafts.
  absl::StatusOr<std::optional<DraftModelPlace>> StartDraftModel(const InProcessOptions& options);
  absl::Status WaitUntilServing();

  Dialer dialer_;
  std::unique_ptr<TokenizerServer> tokenizer_;
  Stages stages_{&dialer_, ""};
  Stages draft_stages_{&dialer_, "draft-"};
  std::unique_ptr<OrchestratorServer> orchestrator_;  // ends before what it is wired to
  std::shared_ptr<grpc::Channel> channel_;
};

absl::Status Pipeline::Start(const InProcessOptions& options) {
  absl::StatusOr<std::unique_ptr<TokenizerServer>> tokenizer =
      TokenizerServer::Start({.model = options.model,
                              .chat_template = options.values.Get<std::string>("chat_template"),
                              .address = "inproc:tokenizer",
                              .hang_timeout = HangTimeout(options)});
  if (!tokenizer.ok()) return tokenizer.status();
  tokenizer_ = *std::move(tokenizer);
  absl::StatusOr<Topology> topology = stages_.Start(options);
  if (!topology.ok()) return topology.status();
  absl::StatusOr<std::optional<DraftModelPlace>> draft_model = StartDraftModel(options);
  if (!draft_model.ok()) return draft_model.status();
  absl::StatusOr<std::unique_ptr<OrchestratorServer>> orchestrator =
      OrchestratorServer::Start({.model = options.model,
                                 .overrides = options.overrides,
                                 .address = "inproc:orchestrator",
                                 .tokenizer = Reachable(dialer_, "tokenizer", *tokenizer_),
                                 .topology = *std::move(topology),
                                 .weights = options.weights,
                                 .draft = options.draft,
                                 .draft_policy = options.draft_policy,
                                 .draft_model = *std::move(draft_model),
                                 .hang_timeout = HangTimeout(options),
                                 .values = options.values.ForChild(kOrchestrator)},
                                &dialer_);
  if (!orchestrator.ok()) return orchestrator.status();
  orchestrator_ = *std::move(orchestrator);
  if (const absl::Status status = WaitUntilServing(); !status.ok()) return status;
  absl::StatusOr<std::shared_ptr<grpc::Channel>> channel =
      dialer_.Dial(Reachable(dialer_, "orchestrator", *orchestrator_), Role::kOrchestrator);
  if (!channel.ok()) return channel.status();
  channel_ = *std::move(channel);
  return absl::OkStatus();
}

absl::StatusOr<std::optional<DraftModelPlace>> Pipeline::StartDraftModel(
    const InProcessOptions& options) {
  if (!options.draft_model.has_value()) return std::optional<DraftModelPlace>();
  InProcessOptions stages = options;
  stages.model = options.draft_model->model;
  stages.overrides = {};
  stages.num_ranks = stages.num_stages = 1;
  stages.weights = options.draft_model->weights;
  stages.kv_cache_bytes = options.draft_model->kv_cache_bytes;
  stages.num_state_slots = 0;
  const absl::StatusOr<Topology> topology = draft_stages_.Start(stages);
  if (!topology.ok()) return topology.status();
  return DraftModelPlace{.model = stages.model,
                         .embedding = topology->embedding,
                         .shard = topology->shards.front().front(),
                         .sampler = topology->sampler};
}

absl::StatusOr<Topology> Stages::Start(const InProcessOptions& options) {
  const int cores = UsableCpus();
  const Arrangement arrangement{
      .num_threads = options.num_threads > 0 ? options.num_threads : cores,
      .num_shards = std::max(1, options.num_stages * options.num_ranks),
      .num_gpus = options.device.kind == DeviceKind::kCuda ? NumGpus() : 0};
  Topology topology;
  absl::Status status = StartSampler(options, arrangement, topology);
  topology.shards.resize(std::max(options.num_stages, 0));
  for (int stage = 0; stage < options.num_stages; ++stage) {
    for (int rank = 0; rank < options.num_ranks; ++rank) {
      if (status.ok())
        status = StartShard(options, arrangement, {.stage = stage, .rank = rank}, topology);
    }
  }
  if (status.ok()) status = StartEmbedding(options, arrangement, topology);
  if (!status.ok()) return status;
  return topology;
}

DeviceOptions Stages::DeviceOf(const InProcessOptions& options, const Arrangement& arrangement,
                               int number, CpuBackendOptions cpu) const {
  ModelFlags flags;
  flags.values = options.values;
  cpu.instructions = flags.instructions();
  DeviceOptions device{.device = DeviceOfProcess(options.device, number, arrangement.num_gpus),
                       .cpu = std::move(cpu),
                       .gpu_products = flags.gpu_products()};
  GuardAgainstGpuFaults(options.program, device);
  return device;
}

absl::Status Stages::StartSampler(const InProcessOptions& options, const Arrangement& arrangement,
                                  Topology& topology) {
  absl::StatusOr<std::unique_ptr<ModelServer>> sampler = StartSamplerServer(
      {.model = options.model,
       .overrides = options.overrides,
       .address = AddressOf("sampler"),
       .hang_timeout = HangTimeout(options),
       .weights = options.weights,
       .device = DeviceOf(options, arrangement, arrangement.num_shards - 1,
                          {.num_threads = arrangement.num_threads, .cpus = options.cpus})});
  if (!sampler.ok()) return sampler.status();
  sampler_ = *std::move(sampler);
  topology.sampler = Reach("sampler", *sampler_);
  return absl::OkStatus();
}

absl::Status Stages::StartShard(const InProcessOptions& options, const Arrangement& arrangement,
                                ShardPlacement placement, Topology& topology) {
  placement.num_stages = options.num_stages;
  placement.num_ranks = options.num_ranks;
  const int number = placement.stage * options.num_ranks + placement.rank;
  const int num_shards = arrangement.num_shards;
  const std::string name = absl::StrCat("shard-", placement.stage, "-", placement.rank);
  ShardServerOptions shard;
  shard.server = {
      .model = options.model,
      .overrides = options.overrides,
      .address = AddressOf(name),
      .hang_timeout = HangTimeout(options),
      .weights = options.weights,
      .device = DeviceOf(options, arrangement, number,
                         {.num_threads = std::max(1, arrangement.num_threads / num_shards),
                          .cpus = CpusOfShard(options.cpus, number, num_shards)})};
  shard.placement = placement;
  shard.shard.kv_dtype = options.kv_dtype;
  shard.shard.kv_cache_bytes = options.kv_cache_bytes / options.num_stages / options.num_ranks;
  shard.shard.num_state_slots = options.num_state_slots;
  shard.shard.device_share =
      DeviceShareOf(ProcessesOnDevice(options.device, num_shards, arrangement.num_gpus));
  absl::StatusOr<std::unique_ptr<ModelServer>> server = StartShardServer(shard, &dialer_);
  if (!server.ok()) return server.status();
  shards_.push_back(*std::move(server));
  topology.shards[placement.stage].push_back(Reach(name, *shards_.back()));
  return absl::OkStatus();
}

absl::Status Stages::StartEmbedding(const InProcessOptions& options, const Arrangement& arrangement,
                                    Topology& topology) {
  absl::StatusOr<std::unique_ptr<ModelServer>> embedding =
      StartEmbeddingServer({.model = options.model,
                            .overrides = options.overrides,
                            .address = AddressOf("embedding"),
                            .hang_timeout = HangTimeout(options),
                            .weights = options.weights,
                            .device = DeviceOf(options, arrangement, 0, {.num_threads = 1})},
                           &dialer_);
  if (!embedding.ok()) return embedding.status();
  embedding_ = *std::move(embedding);
  topology.embedding = Reach("embedding", *embedding_);
  return absl::OkStatus();
}

absl::Status Pipeline::WaitUntilServing() {
  const SteadyTime deadline = SteadyTime::Now() + kStartTimeout;
  while (!orchestrator_->engine().status().target().ready) {
    if (SteadyTime::Now() > deadline) {
      std::string details;
      const RunnerStatus replica = orchestrator_->engine().status().target();
      for (const ReplicaProcess& process : *replica.processes) {
        if (!process.ready) absl::StrAppend(&details, "; ", process.address, ": ", process.detail);
      }
      return absl::DeadlineExceededError(absl::StrCat("the pipeline did not come up", details));
    }
    absl::SleepFor(absl::Milliseconds(1));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<InProcessPipeline>> StartInProcess(const InProcessOptions& options) {
  SetMinimumLogLevel(*ParseLogLevel(options.values.Get<std::string>("log_level")));
  if (options.num_stages < 1 || options.num_ranks < 1) {
    return absl::InvalidArgumentError(absl::StrCat("--pp is ", options.num_stages, " and --tp is ",
                                                   options.num_ranks, "; accepted: 1 or more"));
  }
  auto pipeline = std::make_unique<Pipeline>();
  const absl::Status status = pipeline->Start(options);
  if (!status.ok()) return status;
  return pipeline;
}

}  // namespace sluice
