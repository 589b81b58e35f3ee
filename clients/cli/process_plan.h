// Which processes make a pipeline on one host, and with which arguments. Pure functions.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "clients/cli/model_flags.h"
#include "clients/cli/supervisor.h"
#include "services/common/log_format.h"
#include "services/model/model_config.h"
#include "services/model/shard_plan.h"

namespace sluice {

// What a step may hold, and how many sequences may wait.
struct StepFlags {
  int32_t max_step_tokens = 512;
  int32_t max_step_sequences = 64;
  int32_t max_queued_sequences = 1024;
};

struct PipelineSpec {
  std::string bin_folder;     // holds sluice-tokenizer and the other services' programs
  std::string socket_folder;  // for the internal listeners
  std::string model_folder;
  std::string listen;                  // the orchestrator's address for clients
  std::string health;                  // where it answers grpc.health.v1 to this host
  std::vector<std::string> listener;   // its flags about who may come
  std::vector<std::string> telemetry;  // its and the gateway's flags about a collector
  int metrics_port = 0;                // its metrics; the others' are on the ports after; 0: none
  std::string metrics_host;            // the address that they are on
  std::string http_listen;             // the gateway's; empty: none is started
  std::vector<std::string> gateway;    // its flags about who may come; some: it reaches the
                                       // orchestrator on a socket, without TLS
  uint64_t memory_limit = std::numeric_limits<uint64_t>::max();  // of all processes together
  std::string demo_token_file;  // the page may kill processes for whoever knows the token
  LogFormat log_format = LogFormat::kText;
  int num_gpus = 0;  // of this host, for --device cuda
  ModelFlags flags;
  StepFlags steps;
  // The model that drafts for it, where flags.draft_model names one.
  std::optional<ModelConfig> draft_config;
};

// "shard-1-0": rank 0 of stage 1.
std::string ShardName(const ShardPlacement& placement);

// The plan of every shard, stage by stage and in each rank by rank; errors of MakeShardPlan.
absl::StatusOr<std::vector<ShardPlan>> PlanShards(const ModelConfig& config,
                                                  const ModelFlags& flags);

// Tokenizer, embedding, shards, sampler, the draft model's embedding, shard and sampler, orchestrator
// and gateway, in this order, each with the address of its health on this host. Every shard gets its
// part of the memory for keys and values, in proportion to the layers and KV heads it holds, at least
// 1 MiB; and of the threads an equal one, at least one.
std::vector<ProcessSpec> PlanProcesses(const PipelineSpec& spec, const ModelConfig& config,
                                       const std::vector<ShardPlan>& shards);

}  // namespace sluice
