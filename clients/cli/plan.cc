// `sluice plan`: what memory a model takes in an arrangement, by arithmetic alone.
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "clients/cli/commands.h"
#include "clients/cli/json.h"
#include "clients/cli/model_flags.h"
#include "clients/cli/outcome.h"
#include "clients/cli/process_plan.h"
#include "clients/cli/terminal_text.h"
#include "kernels/state_format.h"
#include "services/model/checkpoint.h"
#include "services/model/identity.h"
#include "services/model/memory_plan.h"
#include "services/model/weights.h"

namespace sluice {
namespace {

constexpr int kBlockPositions = 16;  // what the orchestrator gives out at a time

struct PlanFlags {
  ModelFlags model{kPlan};
  std::optional<int32_t> context;
  int32_t sequences = 1;
  bool json = false;
};

// One row of the table.
struct ProcessMemory {
  std::string name;
  std::optional<ShardPlan> shard;
  uint64_t weight_bytes = 0;
  uint64_t kv_bytes = 0;

  uint64_t bytes() const { return weight_bytes + kv_bytes; }
};

struct MemoryPlan {
  std::string model;
  uint64_t num_parameters = 0;
  WeightFormat format = WeightFormat::kBF16;
  bool has_weights = true;  // the folder; else they are taken for what config.json says, or BF16
  DType kv_dtype = DType::kF32;
  int64_t context = 0;
  int64_t sequences = 1;
  uint64_t kv_bytes_per_position = 0;
  uint64_t state_slots = 0;  // of models with recurrent layers
  uint64_t bytes_per_state_slot = 0;
  uint64_t kv_cache_mib = 0;
  std::vector<ProcessMemory> processes;
  std::string draft_model;  // its name; empty: no model drafts
  uint64_t draft_kv_cache_mib = 0;

  uint64_t bytes() const {
    uint64_t sum = 0;
    for (const ProcessMemory& process : processes) sum += process.bytes();
    return sum;
  }
};

absl::StatusOr<int64_t> ContextOf(const PlanFlags& flags, const ModelConfig& config) {
  const int64_t context = flags.context.value_or(config.max_positions);
  if (context <= config.max_positions) return context;
  return absl::InvalidArgumentError(absl::StrCat("--context is ", context, "; accepted: 1 to ",
                                                 config.max_positions,
                                                 ", or more with --rope_scaling"));
}

// Where there are no files yet to tell.
WeightFormat FormatWithoutFiles(const ModelConfig& config, WeightType type) {
  if (type == WeightType::kAuto && config.quantization.has_value()) {
    return config.quantization->format;
  }
  return type.format.value_or(WeightFormat::kBF16).weights;
}

absl::StatusOr<WeightFormat> ChooseFormat(const std::string& folder, const ModelConfig& config,
                                          WeightType type) {
  if (!Checkpoint::IsIn(folder)) return FormatWithoutFiles(config, type);
  const absl::StatusOr<WeightSource> source = WeightSource::Open(folder, config);
  if (!source.ok()) return source.status();
  return source->Resolve(type);
}

// What a model keeps, and in what.
struct KeptModel {
  const ModelConfig& config;
  const std::vector<ShardPlan>& shards;
  WeightFormat format;
  DType kv_dtype;
};

// What sequences need of the memory for keys and values.
struct KvNeed {
  uint64_t positions = 0;
  uint64_t state_slots = 0;

  uint64_t bytes(uint64_t per_position, uint64_t per_slot) const {
    return positions * per_position + state_slots * per_slot;
  }
};

// Of a state each: that it goes on from, that being written, and one for prompts that begin alike.
constexpr uint64_t kStatesPerSequence = 3;

void AddProcesses(const KeptModel& kept, const KvNeed& need, const std::string& prefix,
                  MemoryPlan& plan) {
  plan.processes.push_back(
      {.name = prefix + "embedding", .weight_bytes = EmbeddingBytes(kept.config, kept.format)});
  for (const ShardPlan& shard : kept.shards) {
    plan.processes.push_back(
        {.name = prefix.empty() ? ShardName(shard.placement) : prefix + "shard",
         .shard = shard,
         .weight_bytes = ShardBytes(kept.config, shard, kept.format),
         .kv_bytes = need.bytes(KvBytesPerPosition(kept.config, shard, kept.kv_dtype),
                                StateSlotBytes(kept.config, shard))});
  }
  plan.processes.push_back(
      {.name = prefix + "sampler", .weight_bytes = HeadBytes(kept.config, kept.format)});
}

uint64_t WholeMebibytes(uint64_t bytes) { return (bytes + (1 << 20) - 1) >> 20; }

// Its sequences are those of the served model, as long as they.
absl::Status AddDraftModel(const PlanFlags& flags, const KvNeed& need, MemoryPlan& plan) {
  const ModelFlags draft = FlagsOfDraftModel(flags.model);
  const absl::StatusOr<ModelConfig> config = LoadModelConfig(draft.model());
  if (!config.ok()) return config.status();
  const absl::StatusOr<std::vector<ShardPlan>> shards = PlanShards(*config, draft);
  if (!shards.ok()) return shards.status();
  const absl::StatusOr<WeightFormat> format =
      ChooseFormat(draft.model(), *config, draft.weight_type());
  if (!format.ok()) return format.status();
  const absl::StatusOr<ModelIdentity> identity = IdentifyModel(draft.model());
  if (!identity.ok()) return identity.status();
  plan.draft_model = identity->name;
  plan.draft_kv_cache_mib = WholeMebibytes(
      need.bytes(KvBytesPerPosition(*config, plan.kv_dtype), StateSlotBytes(*config)));
  AddProcesses({*config, *shards, *format, plan.kv_dtype}, need, "draft-", plan);
  return absl::OkStatus();
}

absl::StatusOr<MemoryPlan> MakeMemoryPlan(const PlanFlags& flags, const std::string& folder) {
  const absl::StatusOr<ModelConfig> config = LoadModelConfig(folder, flags.model.overrides());
  if (!config.ok()) return config.status();
  const absl::StatusOr<std::vector<ShardPlan>> shards = PlanShards(*config, flags.model);
  if (!shards.ok()) return shards.status();
  const absl::StatusOr<int64_t> context = ContextOf(flags, *config);
  if (!context.ok()) return context.status();
  const absl::StatusOr<WeightFormat> format =
      ChooseFormat(folder, *config, flags.model.weight_type());
  if (!format.ok()) return format.status();

  const DType kv_dtype = flags.model.kv_dtype();
  const int64_t block_positions =
      config->recurrent() == nullptr ? kBlockPositions : StatePoolSpec::kRun;
  const int64_t blocks = (*context + block_positions - 1) / block_positions * flags.sequences;
  const KvNeed need{.positions = static_cast<uint64_t>(blocks * block_positions),
                    .state_slots = kStatesPerSequence * flags.sequences};
  const uint64_t per_position = KvBytesPerPosition(*config, kv_dtype);
  const absl::StatusOr<ModelIdentity> identity = IdentifyModel(folder);
  if (!identity.ok()) return identity.status();
  MemoryPlan plan{.model = identity->name,
                  .num_parameters = NumParameters(*config),
                  .format = *format,
                  .has_weights = Checkpoint::IsIn(folder),
                  .kv_dtype = kv_dtype,
                  .context = *context,
                  .sequences = flags.sequences,
                  .kv_bytes_per_position = per_position};
  plan.bytes_per_state_slot = StateSlotBytes(*config);
  if (plan.bytes_per_state_slot > 0) plan.state_slots = need.state_slots;
  plan.kv_cache_mib = WholeMebibytes(need.bytes(
      per_position * KvCopies(*config, flags.model.num_ranks()), plan.bytes_per_state_slot));
  AddProcesses({*config, *shards, *format, kv_dtype}, need, "", plan);
  if (flags.model.draft_model().empty()) return plan;
  const absl::Status added = AddDraftModel(flags, need, plan);
  if (!added.ok()) return added;
  return plan;
}

std::string SizeText(uint64_t bytes) {
  return bytes == 0 ? "-" : absl::StrFormat("%.1f MiB", static_cast<double>(bytes) / (1 << 20));
}

std::string RangeText(const std::optional<ShardPlan>& shard, IndexRange ShardPlan::*range) {
  if (!shard.has_value()) return "-";
  return absl::StrCat(((*shard).*range).begin, " to ", ((*shard).*range).end - 1);
}

std::string TextOf(const MemoryPlan& plan) {
  const int width = plan.draft_model.empty() ? 12 : 15;
  std::string text = absl::StrFormat(
      "%s: %.2f billion parameters, weights %s%s, keys and values %s\n\n"
      "%-*s %-9s %-9s %13s %13s %13s\n",
      plan.model, static_cast<double>(plan.num_parameters) / 1e9, TypeName(plan.format),
      plan.has_weights ? "" : " (the folder has none yet)", KvDTypeName(plan.kv_dtype), width,
      "PROCESS", "LAYERS", "KV HEADS", "WEIGHTS", "KV CACHE", "TOGETHER");
  for (const ProcessMemory& process : plan.processes) {
    absl::StrAppendFormat(&text, "%-*s %-9s %-9s %13s %13s %13s\n", width, process.name,
                          RangeText(process.shard, &ShardPlan::layers),
                          RangeText(process.shard, &ShardPlan::kv_heads),
                          SizeText(process.weight_bytes), SizeText(process.kv_bytes),
                          SizeText(process.bytes()));
  }
  absl::StrAppendFormat(&text, "%-*s %13s\n\n", width + 48, "in all", SizeText(plan.bytes()));
  absl::StrAppendFormat(&text,
                        "%d sequence%s of %d positions of %d bytes: --kv_cache_mib %d.\n"
                        "Programs, and what a step computes with, come on top.\n",
                        plan.sequences, plan.sequences == 1 ? "" : "s", plan.context,
                        plan.kv_bytes_per_position, plan.kv_cache_mib);
  if (plan.state_slots > 0) {
    absl::StrAppendFormat(&text,
                          "Recurrent layers: %d states of %s, %d a sequence, in it: "
                          "--state_slots %d.\n",
                          plan.state_slots, SizeText(plan.bytes_per_state_slot), kStatesPerSequence,
                          plan.state_slots);
  }
  if (plan.draft_model.empty()) return text;
  absl::StrAppendFormat(&text, "%s drafts; as many positions of it: --draft_kv_cache_mib %d.\n",
                        plan.draft_model, plan.draft_kv_cache_mib);
  return text;
}

std::string JsonText(const MemoryPlan& plan) {
  Json json = {{"model", plan.model},
               {"num_parameters", plan.num_parameters},
               {"weights", TypeName(plan.format)},
               {"kv_dtype", KvDTypeName(plan.kv_dtype)},
               {"context", plan.context},
               {"sequences", plan.sequences},
               {"kv_bytes_per_position", plan.kv_bytes_per_position},
               {"kv_cache_mib", plan.kv_cache_mib},
               {"bytes", plan.bytes()}};
  if (plan.state_slots > 0) {
    json["state_slots"] = plan.state_slots;
    json["bytes_per_state_slot"] = plan.bytes_per_state_slot;
  }
  if (!plan.draft_model.empty()) {
    json["draft_model"] = plan.draft_model;
    json["draft_kv_cache_mib"] = plan.draft_kv_cache_mib;
  }
  json["processes"] = Json::array();
  for (const ProcessMemory& process : plan.processes) {
    json["processes"].push_back({{"process", process.name},
                                 {"weight_bytes", process.weight_bytes},
                                 {"kv_bytes", process.kv_bytes}});
  }
  return DumpLine(json) + "\n";
}

}  // namespace

int PlanCommand(absl::Span<const std::string> arguments, Environment& environment) {
  PlanFlags plan_flags;
  FlagSet flags("plan", "[flags]",
                "Prints what memory a model takes, process by process, before anything is started: "
                "by arithmetic, from config.json alone where the folder has no weights yet.");
  flags.Section("Load");
  flags.AddParsed("context", "C", "Positions of a sequence. Default: as many as the model has.",
                  FlagSet::IntegerFrom(1, 1 << 28, &plan_flags.context));
  flags.AddParsed("sequences", "N", "Sequences of that length at a time. Default 1.",
                  FlagSet::IntegerFrom(1, 1 << 20, &plan_flags.sequences));
  flags.AddSwitch("json", "One JSON object with the same figures, in bytes.", &plan_flags.json);
  AddModelFlags(flags, &plan_flags.model);
  if (const std::optional<int> exit = ParseOrExit(flags, arguments, environment)) return *exit;
  if (const absl::Status usage = CheckModelFlags(plan_flags.model); !usage.ok()) {
    return FailUsage(flags.command(), usage, environment);
  }
  const absl::StatusOr<std::string> folder = ModelFolder(plan_flags.model, environment.executable);
  if (!folder.ok()) return Fail(folder.status(), environment);
  const absl::StatusOr<MemoryPlan> plan = MakeMemoryPlan(plan_flags, *folder);
  if (!plan.ok()) return Fail(plan.status(), environment);
  const std::string text = plan_flags.json ? JsonText(*plan) : TextOf(*plan);
  environment.out << (environment.out_is_terminal ? Printable(text) : text);
  return Succeed(environment);
}

}  // namespace sluice
