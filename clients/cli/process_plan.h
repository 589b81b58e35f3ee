// The processes of a pipeline on one host, with their arguments. Pure functions.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "clients/cli/model_flags.h"
#include "clients/cli/supervisor.h"
#include "services/model/model_config.h"
#include "services/model/shard_plan.h"

namespace sluice {

struct PipelineSpec {
  std::string bin_folder;     // holds sluice-tokenizer and the other services' programs
  std::string socket_folder;  // for the internal listeners
  std::string model_folder;
  std::string listen;       // the orchestrator's address for clients
  std::string health;       // where it answers grpc.health.v1 to this host
  std::string http_listen;  // the gateway's; empty: there is none
  uint64_t memory_limit = std::numeric_limits<uint64_t>::max();  // of all processes together
  std::string demo_token_file;  // the page may kill processes for clients that know the token
  int num_gpus = 0;             // of this host, for --device cuda
  // `listen` is a socket that no client knows of.
  bool reached_by_gateway_alone = false;
  ModelFlags flags{kUp};
  // The model that drafts for it, where flags.draft_model() names one.
  std::optional<ModelConfig> draft_config;
};

// "shard-1-0": rank 0 of stage 1.
std::string ShardName(const ShardPlacement& placement);

// The plan of every shard, stage by stage and in each rank by rank; errors of MakeShardPlan.
absl::StatusOr<std::vector<ShardPlan>> PlanShards(const ModelConfig& config,
                                                  const ModelFlags& flags);

// Where the gateway reaches the orchestrator: a socket of its own, or where clients do.
std::string AddressForGateway(const PipelineSpec& spec);

// The processes of one replica: tokenizer, embedding, shards, sampler, the draft model's embedding, shard
// and sampler, and the orchestrator, in this order, each with the address of its health on this host. Each
// process gets the options given to `up` that it has as well (OptionValues::ForChild), and those
// that are set here. Every shard gets its part of the memory for keys and values, in proportion to the
// layers and KV heads it holds, at least 1 MiB; and of the threads an equal one, at least one.
// INVALID_ARGUMENT where the processes' metrics would need more ports than there are.
absl::StatusOr<std::vector<ProcessSpec>> PlanReplica(const PipelineSpec& spec,
                                                     const ModelConfig& config,
                                                     const std::vector<ShardPlan>& shards);

// The gateway before the orchestrator at AddressForGateway(), or before the models of the host at
// `model_host` where that is not empty. Of `spec` what belongs to a model does not matter.
// REQUIRES: http_listen is not empty.
ProcessSpec PlanGateway(const PipelineSpec& spec, const std::string& model_host = "");

// The replica and, where there is one, its gateway at the end.
absl::StatusOr<std::vector<ProcessSpec>> PlanProcesses(const PipelineSpec& spec,
                                                       const ModelConfig& config,
                                                       const std::vector<ShardPlan>& shards);

}  // namespace sluice
