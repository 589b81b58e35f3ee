// The options that say which model is served in what arrangement, as `up`, `run`, `plan` and the
// commands that can start a pipeline of their own have them, and what follows from them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/cpu/instruction_set.h"
#include "kernels/device/make_backend.h"
#include "kernels/gpu/gpu_facts.h"
#include "services/model/model_config.h"
#include "services/model/storage_type.h"
#include "services/options/flags.h"
#include "services/options/option_values.h"

namespace sluice {

// The part of a GPU's memory for each of the shards that share it: the rest is for embedding table,
// head and other programs.
constexpr double DeviceShareOf(int num_shards) { return 0.8 / num_shards; }

// REQUIRES, of what follows from the options: CheckModelFlags() has accepted them.
struct ModelFlags {
  explicit ModelFlags(Programs program = kRun) : values(program) {}

  OptionValues values;
  std::vector<int> cpus;  // of --cpus; empty: all

  // Folder; empty: the embedded model.
  std::string model() const { return values.Get<std::string>("model"); }
  // Folder; empty: no model drafts.
  std::string draft_model() const { return values.Get<std::string>("draft_model"); }
  int num_ranks() const { return values.Get<int>("tp"); }
  int num_stages() const { return values.Get<int>("pp"); }
  WeightType weight_type() const { return *ParseWeightType(values.Get<std::string>("weights")); }
  DType kv_dtype() const;
  DeviceId device() const { return *ParseDevice(values.Get<std::string>("device")); }
  bool on_gpu() const { return device().kind == DeviceKind::kCuda; }
  std::optional<InstructionSet> instructions() const;
  std::optional<GpuProducts> gpu_products() const;
  // 0: what GPUs have left.
  uint64_t kv_cache_size_mib() const;
  // Threads for arithmetic in all, >= 1: one per CPU of --cpus, else per core, where none were
  // asked for.
  int num_threads() const;
  ModelOverrides overrides() const {
    return {.rope_scaling = values.Get<std::string>("rope_scaling")};
  }
};

// INVALID_ARGUMENT where a device or instructions are not this machine's, where flags of the draft model
// are given and it is not, or flags of GPUs where none computes.
absl::Status CheckModelFlags(const ModelFlags& flags);

// The draft model, arranged as it is started: one shard, the arithmetic of the served one.
// REQUIRES: flags.draft_model() is not empty.
ModelFlags FlagsOfDraftModel(const ModelFlags& flags);

// Memory for the draft model's keys and values, in MiB: what was asked for, else as many positions as
// the served model's have room for. Of GPUs, whose room is not known before, 512.
uint64_t DraftKvMib(const ModelFlags& flags, const ModelConfig& config,
                    const ModelConfig& draft_config);

// Sets one option of `flags.values`, and what follows from it; its status names the option.
absl::Status SetOption(ModelFlags& flags, absl::string_view name, const std::string& text);

// The options that the program of `into` has. --termination_log counts from when it is read, for those
// after it may be wrong.
void AddModelFlags(FlagSet& flags, ModelFlags* into);

// The folder asked for, else the embedded model's, which is looked for from where `executable` is:
// in the checkout of a build (../../../models/storyteller from its bin) and in an installation
// (../share/sluice/models/storyteller); then, for a program that was copied, where `cmake
// --install` puts it. NOT_FOUND naming all where it is in none.
absl::StatusOr<std::string> ModelFolder(const ModelFlags& flags, const std::string& executable);

}  // namespace sluice
