// The flags that say which model is served in what arrangement, shared by `run`, `up` and the
// commands that can start a pipeline of their own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "clients/cli/flags.h"
#include "kernels/cpu/instruction_set.h"
#include "kernels/device/make_backend.h"
#include "kernels/gpu/gpu_facts.h"
#include "orchestrator/drafts/draft_mode.h"
#include "orchestrator/drafts/draft_policy.h"
#include "services/common/log.h"
#include "services/model/model_config.h"
#include "services/model/storage_type.h"

namespace sluice {

// The part of a GPU's memory for each of the shards that share it: the rest is for embedding table,
// head and other programs.
constexpr double DeviceShareOf(int num_shards) { return 0.8 / num_shards; }

struct ModelFlags {
  std::optional<std::string> model;  // folder; none: the embedded model
  std::optional<int32_t> tp;
  std::optional<int32_t> pp;
  std::optional<WeightType> weights;
  std::optional<DType> kv;  // type of keys and values
  std::optional<DeviceId> device;
  std::optional<int32_t> threads;
  std::vector<int> cpus;  // empty: all
  std::optional<InstructionSet> instructions;
  std::optional<GpuProducts> gpu_products;
  std::optional<uint64_t> kv_cache_mib;
  std::optional<std::string> rope_scaling;
  std::optional<LogLevel> log_level;
  std::optional<absl::Duration> hang_timeout;
  std::optional<DraftMode> draft;
  std::optional<DraftPolicy> policy;
  std::optional<std::string> draft_model;  // folder; none: no model drafts
  std::optional<WeightType> draft_weights;
  std::optional<uint64_t> draft_kv_mib;

  int num_ranks() const { return tp.value_or(1); }
  int num_stages() const { return pp.value_or(1); }
  WeightType weight_type() const { return weights.value_or(WeightType::kAuto); }
  DType kv_dtype() const { return kv.value_or(DefaultKvDType(on_gpu())); }
  bool on_gpu() const { return device.has_value() && device->kind == DeviceKind::kCuda; }
  // 0: what GPUs have left.
  uint64_t kv_cache_size_mib() const { return kv_cache_mib.value_or(on_gpu() ? 0 : 512); }
  // Threads for arithmetic in all, >= 1: one per CPU of --cpus, else per core, where none were
  // asked for.
  int num_threads() const;
  // Whether any of the flags was given.
  bool any() const {
    return model || tp || pp || weights || kv || device || threads || !cpus.empty() ||
           instructions || gpu_products || kv_cache_mib || rope_scaling || log_level ||
           hang_timeout || draft || policy || draft_model || draft_weights || draft_kv_mib;
  }
  absl::Duration hang_bound() const { return hang_timeout.value_or(absl::Seconds(2)); }
  DraftMode draft_mode() const { return draft.value_or(DraftMode::kNgram); }
  DraftPolicy draft_policy() const { return policy.value_or(DraftPolicy::kMeasured); }
  ModelOverrides overrides() const { return {.rope_scaling = rope_scaling.value_or("")}; }
};

// INVALID_ARGUMENT where flags of the draft model are given and it is not, or flags of GPUs where
// none computes.
absl::Status CheckModelFlags(const ModelFlags& flags);

// The draft model, arranged as it is started: one shard, the arithmetic of the served one.
// REQUIRES: flags.draft_model.has_value().
ModelFlags FlagsOfDraftModel(const ModelFlags& flags);

// Memory for the draft model's keys and values, in MiB: what was asked for, else as many positions as
// the served model's have room for. Of GPUs, whose room is not known before, 512.
uint64_t DraftKvMib(const ModelFlags& flags, const ModelConfig& config,
                    const ModelConfig& draft_config);

// --model, --tp, --pp, --weights, --kv_dtype, --rope_scaling, --draft_model, --draft_weights: what is
// kept where.
void AddArrangementFlags(FlagSet& flags, ModelFlags* into);

// Those, and --device, --threads, --cpus, --instructions, --gpu_instructions, --kv_cache_mib,
// --log_level, --hang_timeout, --draft, --draft_policy, --draft_kv_cache_mib. `default_level` is what
// the help says of the level.
void AddModelFlags(FlagSet& flags, ModelFlags* into, const char* default_level = "warning");

// The folder asked for, else the embedded model's, which is looked for from where `executable` is:
// in the checkout of a build (../../../models/storyteller from its bin) and in an installation
// (../share/sluice/models/storyteller); then, for a program that was copied, where `cmake
// --install` puts it. NOT_FOUND naming all where it is in none.
absl::StatusOr<std::string> ModelFolder(const ModelFlags& flags, const std::string& executable);

}  // namespace sluice
