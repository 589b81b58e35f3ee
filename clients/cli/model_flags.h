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
#include "services/model/model_config.h"
#include "services/model/storage_type.h"

namespace sluice {

struct ModelFlags {
  std::optional<std::string> model;  // folder; none: the embedded model
  std::optional<int32_t> tp;
  std::optional<int32_t> pp;
  std::optional<WeightType> weights;
  std::optional<DType> kv;  // type of keys and values
  std::optional<int32_t> threads;
  std::vector<int> cpus;  // empty: all
  std::optional<InstructionSet> instructions;
  std::optional<uint64_t> kv_cache_mib;
  std::optional<std::string> rope_scaling;

  int num_ranks() const { return tp.value_or(1); }
  int num_stages() const { return pp.value_or(1); }
  WeightType weight_type() const { return weights.value_or(WeightType::kAuto); }
  DType kv_dtype() const { return kv.value_or(DType::kF32); }
  uint64_t kv_cache_size_mib() const { return kv_cache_mib.value_or(512); }
  // Threads for arithmetic in all, >= 1: one per CPU of --cpus, else per core, where none were
  // asked for.
  int num_threads() const;
  // Whether any of the flags was given.
  bool any() const {
    return model || tp || pp || weights || kv || threads || !cpus.empty() || instructions ||
           kv_cache_mib || rope_scaling;
  }
  ModelOverrides overrides() const { return {.rope_scaling = rope_scaling.value_or("")}; }
};

// --model, --tp, --pp, --weights, --kv_dtype, --threads, --cpus, --instructions, --kv_cache_mib,
// --rope_scaling.
void AddModelFlags(FlagSet& flags, ModelFlags* into);

// The folder asked for, else the embedded model's, which is looked for beside `executable`: in the
// checkout of a build (../../../models/storyteller from its bin) and in an installation
// (../share/sluice/models/storyteller). NOT_FOUND naming both where it is in neither.
absl::StatusOr<std::string> ModelFolder(const ModelFlags& flags, const std::string& executable);

}  // namespace sluice
