#include "clients/cli/model_flags.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "kernels/gpu/gpu_check.h"
#include "kernels/usable_cpus.h"
#include "services/common/cpu_list.h"
#include "services/model/memory_plan.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMostKvCacheMib = uint64_t{1} << 30;  // 1 PiB: in bytes it fits 64 bits

constexpr int32_t kMostProcesses = 1024;

absl::Status SetLogLevel(const std::string& text, std::optional<LogLevel>* into) {
  const absl::StatusOr<LogLevel> level = ParseLogLevel(text);
  if (level.ok()) *into = *level;
  return level.status();
}

absl::Status SetWeights(const std::string& text, std::optional<WeightType>* into) {
  const absl::StatusOr<WeightType> type = ParseWeightType(text);
  if (type.ok()) *into = *type;
  return type.status();
}

absl::Status SetKvDType(const std::string& text, std::optional<DType>* into) {
  const absl::StatusOr<DType> dtype = ParseKvDType(text);
  if (dtype.ok()) *into = *dtype;
  return dtype.status();
}

absl::Status SetDevice(const std::string& text, std::optional<DeviceId>* into) {
  const absl::StatusOr<DeviceId> device = ParseDevice(text);
  if (device.ok()) *into = *device;
  return device.status();
}

absl::Status SetInstructions(const std::string& text, std::optional<InstructionSet>* into) {
  const absl::StatusOr<InstructionSet> set = ParseInstructionSet(text);
  if (set.ok()) *into = *set;
  return set.status();
}

absl::Status SetGpuInstructions(const std::string& text, std::optional<GpuProducts>* into) {
  const absl::StatusOr<std::optional<GpuProducts>> products = ParseGpuProducts(text);
  if (products.ok()) *into = *products;
  return products.status();
}

absl::Status SetCpus(const std::string& text, std::vector<int>* into) {
  absl::StatusOr<std::vector<int>> cpus = ParseCpuList(text);
  if (!cpus.ok()) return cpus.status();
  *into = *std::move(cpus);
  return absl::OkStatus();
}

absl::Status SetHangTimeout(const std::string& text, std::optional<absl::Duration>* into) {
  const absl::Status status = ParseFlagValue(text, into);
  if (!status.ok() || **into > absl::ZeroDuration()) return status;
  return absl::InvalidArgumentError(absl::StrCat(text, " is not more than 0"));
}

absl::Status SetDraft(const std::string& text, std::optional<DraftMode>* into) {
  const absl::StatusOr<DraftMode> mode = ParseDraftMode(text);
  if (mode.ok()) *into = *mode;
  return mode.status();
}

absl::Status SetDraftPolicy(const std::string& text, std::optional<DraftPolicy>* into) {
  const absl::StatusOr<DraftPolicy> policy = ParseDraftPolicy(text);
  if (policy.ok()) *into = *policy;
  return policy.status();
}

absl::Status SetKvCache(const std::string& text, std::optional<uint64_t>* into) {
  const absl::Status status = ParseFlagValue(text, into);
  if (!status.ok() || (**into >= 1 && **into <= kMostKvCacheMib)) return status;
  return absl::InvalidArgumentError(absl::StrCat(text, " is not from 1 to ", kMostKvCacheMib));
}

}  // namespace

int ModelFlags::num_threads() const {
  const int cores = cpus.empty() ? UsableCpus() : static_cast<int>(cpus.size());
  return threads.value_or(cores);
}

void AddArrangementFlags(FlagSet& flags, ModelFlags* into) {
  flags.Add("model", "DIR",
            "Hugging Face folder: config.json, model.safetensors, tokenizer.json. Default: the "
            "embedded storyteller model.",
            &into->model);
  flags.AddParsed("tp", "N", "Ranks that share every layer (tensor parallel). Default 1.",
                  FlagSet::IntegerFrom(1, kMostProcesses, &into->tp));
  flags.AddParsed("pp", "P", "Stages that share the layers (pipeline parallel). Default 1.",
                  FlagSet::IntegerFrom(1, kMostProcesses, &into->pp));
  flags.AddParsed(
      "weights", "TYPE",
      "Keep matrices as f32, bf16, int8, int4, fp8 or int8-g64 (quantized while they are read, "
      "unless `sluice quantize` has done it); fp8-w8a8: as fp8, and round what layers multiply "
      "with them to FP8, too; auto: as the file stores them. Default auto.",
      [into](const std::string& text) { return SetWeights(text, &into->weights); });
  flags.AddParsed("kv_dtype", "TYPE",
                  "Keep keys and values as f32, bf16, which holds twice the positions, or fp8, "
                  "nearly four times. Default f32; on GPUs bf16.",
                  [into](const std::string& text) { return SetKvDType(text, &into->kv); });
  flags.Add("rope_scaling", "SCALING",
            "How rotary positions are stretched, instead of what config.json says: a type and its "
            "fields, such as yarn,factor=4.",
            &into->rope_scaling);
  flags.Add("draft_model", "DIR",
            "A smaller model with the same tokens that guesses what comes; several guesses are "
            "computed at once, where that wins. No token depends on it. Default: none.",
            &into->draft_model);
  flags.AddParsed(
      "draft_weights", "TYPE", "What --weights is, of the draft model. Default auto.",
      [into](const std::string& text) { return SetWeights(text, &into->draft_weights); });
}

absl::Status CheckModelFlags(const ModelFlags& flags) {
  if (flags.gpu_products.has_value() && !flags.on_gpu()) {
    return absl::InvalidArgumentError(
        "--gpu_instructions is about GPUs: name them with --device cuda");
  }
  if (flags.draft_model.has_value()) return absl::OkStatus();
  for (const auto& [name, given] :
       {std::pair("draft_weights", flags.draft_weights.has_value()),
        std::pair("draft_kv_cache_mib", flags.draft_kv_mib.has_value())}) {
    if (!given) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("--", name, " is about the draft model: name one with --draft_model DIR"));
  }
  return absl::OkStatus();
}

ModelFlags FlagsOfDraftModel(const ModelFlags& flags) {
  ModelFlags draft = flags;
  draft.model = flags.draft_model;
  draft.weights = flags.draft_weights;
  draft.tp = draft.pp = 1;
  draft.rope_scaling.reset();
  draft.draft_model.reset();
  return draft;
}

uint64_t DraftKvMib(const ModelFlags& flags, const ModelConfig& config,
                    const ModelConfig& draft_config) {
  constexpr uint64_t kOnGpus = 512;
  if (flags.draft_kv_mib.has_value()) return *flags.draft_kv_mib;
  const uint64_t mib = flags.kv_cache_size_mib();
  if (mib == 0) return kOnGpus;
  const auto part = static_cast<double>(KvBytesPerPosition(draft_config, flags.kv_dtype())) /
                    static_cast<double>(KvBytesPerPosition(config, flags.kv_dtype()));
  return std::max<uint64_t>(1, static_cast<uint64_t>(std::ceil(static_cast<double>(mib) * part)));
}

void AddModelFlags(FlagSet& flags, ModelFlags* into, const char* default_level) {
  flags.Section("Model");
  AddArrangementFlags(flags, into);
  flags.AddParsed("device", "DEVICE",
                  "What computes: cpu, or, in a build with CUDA, cuda: the GPUs of the machine in "
                  "turns, or cuda:i: GPU i alone. Default cpu.",
                  [into](const std::string& text) { return SetDevice(text, &into->device); });
  flags.AddParsed("threads", "N",
                  "Threads for arithmetic, shared out among stages and ranks, each of which has at "
                  "least one. Default: one per core, or per CPU listed.",
                  FlagSet::IntegerFrom(1, kMostThreads, &into->threads));
  flags.AddParsed(
      "cpus", "LIST",
      "CPUs to keep to, such as 0-3,8, each thread for arithmetic to one of them; shared "
      "out among stages and ranks. Default: all.",
      [into](const std::string& text) { return SetCpus(text, &into->cpus); });
  flags.AddParsed(
      "instructions", "SET",
      "What computes matrix products: portable, avx512_bf16 or amx_bf16; auto: the fastest that "
      "this processor has. Default auto.",
      [into](const std::string& text) { return SetInstructions(text, &into->instructions); });
  flags.AddParsed(
      "gpu_instructions", "SET",
      "The fastest that a GPU may multiply with: mma, wgmma, wgmma_pipeline or "
      "wgmma_fp8; auto: the fastest that it has. Default auto.",
      [into](const std::string& text) { return SetGpuInstructions(text, &into->gpu_products); });
  flags.AddParsed(
      "kv_cache_mib", "M",
      "Memory for keys and values, all shards together, in MiB. Default 512; on GPUs what they "
      "have left.",
      [into](const std::string& text) { return SetKvCache(text, &into->kv_cache_mib); });
  flags.AddParsed(
      "log_level", "LEVEL",
      absl::StrCat("Least level of lines in the log, on stderr: info, warning or error. Default ",
                   default_level, "."),
      [into](const std::string& text) { return SetLogLevel(text, &into->log_level); });
  flags.AddParsed(
      "hang_timeout", "SECONDS",
      "Work that takes longer, and ten times as long as its like has taken, hangs: it "
      "is begun anew, by another process where there are several. Default 2.",
      [into](const std::string& text) { return SetHangTimeout(text, &into->hang_timeout); });
  flags.AddParsed(
      "draft", "MODE",
      "Tokens computed before the model has chosen: ngram, what followed the same tokens "
      "before, where that wins; or none. No token depends on it. Default ngram.",
      [into](const std::string& text) { return SetDraft(text, &into->draft); });
  flags.AddParsed(
      "draft_policy", "POLICY",
      "Which drafts are computed: measured, those that save time, by what steps take; or always, "
      "the likeliest, and --draft_model is asked before every token: to see what they bring. "
      "Default measured.",
      [into](const std::string& text) { return SetDraftPolicy(text, &into->policy); });
  flags.AddParsed(
      "draft_kv_cache_mib", "M",
      "Memory for the keys and values of --draft_model, in MiB. Default: as many positions as "
      "--kv_cache_mib has room for; on GPUs 512.",
      [into](const std::string& text) { return SetKvCache(text, &into->draft_kv_mib); });
}

absl::StatusOr<std::string> ModelFolder(const ModelFlags& flags, const std::string& executable) {
  if (flags.model.has_value()) {
    // Whatever reads it first, the same is said.
    std::error_code ignored;
    if (fs::exists(*flags.model, ignored)) return *flags.model;
    return absl::NotFoundError(
        absl::StrCat(*flags.model,
                     ": no such folder; accepted: a folder with config.json and "
                     "model.safetensors"));
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
