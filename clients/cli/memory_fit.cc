#include "clients/cli/memory_fit.h"

#include <limits>
#include <vector>

#include "clients/cli/process_plan.h"
#include "services/model/memory_plan.h"
#include "services/model/weights.h"

namespace sluice {
namespace {

// Of embedding, shards and head.
absl::StatusOr<uint64_t> WeightBytes(const ModelFlags& flags, const std::string& folder,
                                     const ModelConfig& config) {
  const absl::StatusOr<std::vector<ShardPlan>> shards = PlanShards(config, flags);
  if (!shards.ok()) return shards.status();
  const absl::StatusOr<WeightSource> source = WeightSource::Open(folder, config);
  if (!source.ok()) return source.status();
  const absl::StatusOr<WeightFormat> format = source->Resolve(flags.weight_type());
  if (!format.ok()) return format.status();
  uint64_t bytes = EmbeddingBytes(config, *format) + HeadBytes(config, *format);
  for (const ShardPlan& shard : *shards) bytes += ShardBytes(config, shard, *format);
  return bytes;
}

}  // namespace

absl::StatusOr<KeptMemory> PipelineMemory(const ModelFlags& flags, const std::string& folder) {
  KeptMemory kept{.who = "the pipeline"};
  if (flags.on_gpu()) return kept;
  const absl::StatusOr<ModelConfig> config = LoadModelConfig(folder, flags.overrides());
  if (!config.ok()) return config.status();
  const absl::StatusOr<uint64_t> weights = WeightBytes(flags, folder, *config);
  if (!weights.ok()) return weights.status();
  kept.weight_bytes = *weights;
  kept.kv_bytes = flags.kv_cache_size_mib() << 20;
  const std::string folder_of_draft = flags.draft_model();
  if (folder_of_draft.empty()) return kept;
  const absl::StatusOr<ModelConfig> draft = LoadModelConfig(folder_of_draft);
  if (!draft.ok()) return draft.status();
  const absl::StatusOr<uint64_t> draft_weights =
      WeightBytes(FlagsOfDraftModel(flags), folder_of_draft, *draft);
  if (!draft_weights.ok()) return draft_weights.status();
  kept.weight_bytes += *draft_weights;
  kept.kv_bytes += DraftKvMib(flags, *config, *draft) << 20;
  return kept;
}

absl::Status CheckPipelineFits(const ModelFlags& flags, const std::string& folder,
                               uint64_t limit_bytes) {
  if (limit_bytes == std::numeric_limits<uint64_t>::max()) return absl::OkStatus();
  const absl::StatusOr<KeptMemory> kept = PipelineMemory(flags, folder);
  return kept.ok() ? CheckFits(*kept, limit_bytes) : kept.status();
}

}  // namespace sluice
