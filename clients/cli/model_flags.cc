#include "clients/cli/model_flags.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "clients/hub/hub_model.h"
#include "clients/hub/model_store.h"
#include "kernels/gpu/gpu_check.h"
#include "kernels/state_format.h"
#include "kernels/usable_cpus.h"
#include "services/common/status.h"
#include "services/model/memory_plan.h"
#include "services/options/adapter_list.h"
#include "services/process/cpu_list.h"
#include "services/process/termination_log.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

}  // namespace

absl::Status SetOption(ModelFlags& flags, absl::string_view name, const std::string& text) {
  const absl::Status set = flags.values.Set(name, text);
  if (!set.ok()) return set;
  if (name == "termination_log") return Annotate(SetTerminationLog(text), "--termination_log");
  if (name != "cpus") return set;
  absl::StatusOr<std::vector<int>> cpus = ParseCpuList(text);
  if (cpus.ok()) flags.cpus = *std::move(cpus);
  return Annotate(cpus.status(), "--cpus");
}

std::optional<InstructionSet> ModelFlags::instructions() const {
  return *ParseInstructionSet(values.Get<std::string>("instructions"));
}

std::optional<GpuProducts> ModelFlags::gpu_products() const {
  return *ParseGpuProducts(values.Get<std::string>("gpu_instructions"));
}

DType ModelFlags::kv_dtype() const {
  const std::string text = values.Get<std::string>("kv_dtype");
  return text.empty() ? DefaultKvDType(on_gpu()) : *ParseKvDType(text);
}

uint64_t ModelFlags::kv_cache_size_mib() const {
  if (values.IsGiven("kv_cache_mib")) return static_cast<uint64_t>(values.Get<int>("kv_cache_mib"));
  return on_gpu() ? 0 : 512;
}

int ModelFlags::num_threads() const {
  const int threads = values.Get<int>("threads");
  const auto num_cpus = static_cast<int>(cpus.size());
  return threads > 0 ? threads : num_cpus > 0 ? num_cpus : UsableCpus();
}

absl::Status CheckModelFlags(const ModelFlags& flags) {
  const auto text = [&flags](OptionName<std::string> name) { return flags.values.Get(name); };
  absl::Status machine = Annotate(ParseDevice(text("device")).status(), "--device");
  machine.Update(Annotate(ParseInstructionSet(text("instructions")).status(), "--instructions"));
  machine.Update(
      Annotate(ParseGpuProducts(text("gpu_instructions")).status(), "--gpu_instructions"));
  machine.Update(Annotate(ParseAdapterList(text("adapters")).status(), "--adapters"));
  if (!machine.ok()) return machine;
  if (flags.gpu_products().has_value() && !flags.on_gpu()) {
    return absl::InvalidArgumentError(
        "--gpu_instructions is about GPUs: name them with --device cuda");
  }
  if (!flags.draft_model().empty()) return absl::OkStatus();
  for (const OptionName<void> name :
       {OptionName<void>("draft_weights"), OptionName<void>("draft_kv_cache_mib")}) {
    if (!flags.values.IsGiven(name)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "--", name.text(), " is about the draft model: name one with --draft_model DIR"));
  }
  return absl::OkStatus();
}

ModelFlags FlagsOfDraftModel(const ModelFlags& flags) {
  ModelFlags draft = flags;
  draft.values.Put("model", flags.draft_model());
  draft.values.Put("weights", flags.values.Get<std::string>("draft_weights"));
  draft.values.Reset("tp");
  draft.values.Reset("pp");
  draft.values.Reset("rope_scaling");
  draft.values.Reset("draft_model");
  draft.values.Reset("state_slots");
  return draft;
}

uint64_t DraftKvMib(const ModelFlags& flags, const ModelConfig& config,
                    const ModelConfig& draft_config) {
  constexpr uint64_t kOnGpus = 512;
  if (flags.values.IsGiven("draft_kv_cache_mib")) {
    return static_cast<uint64_t>(flags.values.Get<int>("draft_kv_cache_mib"));
  }
  const uint64_t mib = flags.kv_cache_size_mib();
  if (mib == 0) return kOnGpus;
  // Of a run of positions and a state.
  const auto bytes = [&flags](const ModelConfig& of) {
    return static_cast<double>(KvBytesPerPosition(of, flags.kv_dtype()) * StatePoolSpec::kRun +
                               StateSlotBytes(of));
  };
  const double part = bytes(draft_config) / bytes(config);
  return std::max<uint64_t>(1, static_cast<uint64_t>(std::ceil(static_cast<double>(mib) * part)));
}

void AddModelFlags(FlagSet& flags, ModelFlags* into) {
  flags.AddOptions(into->values.program(), [into](absl::string_view name, const std::string& text) {
    return SetOption(*into, name, text);
  });
}

namespace {

std::string EnvironmentVariable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

absl::StatusOr<std::string> ModelFolder(const ModelFlags& flags, const std::string& executable) {
  if (const std::string model = flags.model(); !model.empty()) {
    // Whatever reads it first, the same is said.
    std::error_code ignored;
    if (fs::exists(model, ignored)) return model;
    if (ParseHubModel(model).ok()) return FindPulled(model, EnvironmentVariable);
    return absl::NotFoundError(
        absl::StrCat(model,
                     ": no such folder; accepted: a folder with config.json and "
                     "model.safetensors, or a file named *.gguf"));
  }
  const fs::path bin = fs::path(executable).parent_path();
  const fs::path in_checkout = (bin / "../../../models/storyteller").lexically_normal();
  const fs::path beside = (bin / "../share/sluice/models/storyteller").lexically_normal();
  const fs::path installed = fs::path(SLUICE_INSTALLED_DATA) / "models/storyteller";
  for (const fs::path& folder : {in_checkout, beside, installed}) {
    std::error_code ignored;
    if (fs::exists(folder / "config.json", ignored)) return folder.string();
  }
  return absl::NotFoundError(absl::StrCat("the embedded model is in none of ", in_checkout.string(),
                                          ", ", beside.string(), " and ", installed.string(),
                                          ": name a model's folder with --model DIR"));
}

}  // namespace sluice
