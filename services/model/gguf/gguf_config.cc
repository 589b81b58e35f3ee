#include "services/model/gguf/gguf_config.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "services/model/gguf/gguf_architectures.h"

namespace sluice {
namespace {

using nlohmann::json;

constexpr char kArchitectureKey[] = "general.architecture";
constexpr int64_t kControlToken = 3;  // a value of tokenizer.ggml.token_type

// Tokens that end an answer, where a file's ids name only some of them.
constexpr const char* kEndTexts[] = {"<|eot_id|>",    "<|im_end|>",      "<|end|>",
                                     "<end_of_turn>", "<|end_of_text|>", "<|endoftext|>",
                                     "<|eom_id|>",    "<turn|>"};

// ---- Architectures ----

struct Architecture {
  const char* name;        // the value of general.architecture
  const char* model_type;  // unless `write` sets another
  WriteGgufArchitecture* write;
};

constexpr Architecture kArchitectures[] = {
    {"llama", "llama", WriteGgufLlama},
    {"qwen2", "qwen2", WriteGgufRotary},
    {"qwen3", "qwen3", WriteGgufQwen3},
    {"smollm3", "smollm3", WriteGgufSmolLm3},
    {"gemma", "gemma", WriteGgufRotary},
    {"phi3", "phi3", WriteGgufPhi3},
    {"gpt2", "gpt2", WriteGgufGpt2},
    {"gptneox", "gpt_neox", WriteGgufGptNeox},
    {"qwen2moe", "qwen2_moe", WriteGgufQwen2Moe},
    {"qwen3moe", "qwen3_moe", WriteGgufQwen3Moe},
    {"olmoe", "olmoe", WriteGgufOlmoe},
    {"gpt-oss", "gpt_oss", WriteGgufGptOss},
    {"glm4moe", "glm4_moe", WriteGgufGlm4Moe},
    {"deepseek2", "deepseek_v3", WriteGgufDeepSeek2},
    {"ernie4_5-moe", "ernie4_5_moe", WriteGgufErnieMoe},
    {"llama4", "llama4_text", WriteGgufLlama4},
    {"granitemoe", "granitemoe", WriteGgufGraniteMoe},
    {"gemma2", "gemma2", WriteGgufGemma2},
    {"gemma3", "gemma3_text", WriteGgufGemma3},
    {"granite", "granite", WriteGgufGranite},
    {"minicpm", "minicpm", WriteGgufMiniCpm},
    {"olmo2", "olmo2", WriteGgufOlmo2},
    {"command-r", "cohere", WriteGgufCohere},
    {"cohere2", "cohere2", WriteGgufCohere},
    {"starcoder2", "starcoder2", WriteGgufStarCoder2},
    {"stablelm", "stablelm", WriteGgufStableLm},
    {"chatglm", "glm", WriteGgufGlm},
    {"glm4", "glm4", WriteGgufGlm},
    {"ernie4_5", "ernie4_5", WriteGgufErnie},
    {"internlm2", "internlm2", WriteGgufInternLm2},
    {"phi2", "phi", WriteGgufPhi2},
    {"mistral3", "ministral3", WriteGgufMistral3},
    {"qwen3next", "qwen3_next", WriteGgufQwen3Next},
    {"qwen35", "qwen3_5_text", WriteGgufQwen35},
    {"qwen35moe", "qwen3_5_moe_text", WriteGgufQwen35Moe},
    {"granitehybrid", "granitemoehybrid", WriteGgufGraniteHybrid},
    {"nemotron_h", "nemotron_h", WriteGgufNemotronH},
    {"nemotron_h_moe", "nemotron_h", WriteGgufNemotronH},
    {"gemma4", "gemma4_text", WriteGgufGemma4},
};

const Architecture* FindArchitecture(GgufFields& fields) {
  const std::string name = fields.Text(kArchitectureKey).value_or("");
  for (const Architecture& architecture : kArchitectures) {
    if (name == architecture.name) return &architecture;
  }
  fields.Reject(kArchitectureKey,
                absl::StrJoin(kArchitectures, ", ",
                              [](std::string* out, const Architecture& architecture) {
                                absl::StrAppend(out, architecture.name);
                              }),
                absl::StatusCode::kUnimplemented);
  return nullptr;
}

// ---- Tokens and sampling ----

void AddUnique(int64_t id, std::vector<int64_t>& ids) {
  if (std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
}

// Control tokens by the texts that end an answer.
void AddEndsByText(const GgufView& view, std::vector<int64_t>& ids) {
  const GgufValue* tokens = view.Find("tokenizer.ggml.tokens");
  const GgufValue* types = view.Find("tokenizer.ggml.token_type");
  if (tokens == nullptr || types == nullptr) return;
  const auto texts = tokens->Texts();
  const auto kinds = types->Ints();
  if (!texts.has_value() || !kinds.has_value()) return;
  std::set<std::string_view> seen;  // the first token of a text counts
  for (size_t id = 0; id < std::min(texts->size(), kinds->size()); ++id) {
    if ((*kinds)[id] != kControlToken) continue;
    for (const char* text : kEndTexts) {
      if ((*texts)[id] == text && seen.insert(text).second)
        AddUnique(static_cast<int64_t>(id), ids);
    }
  }
}

void WriteTokenIds(GgufFields& fields, json& config) {
  if (const auto bos = fields.Int("tokenizer.ggml.bos_token_id")) config["bos_token_id"] = *bos;
  std::vector<int64_t> ends;
  for (const char* name : {"eos", "eot", "eom"}) {
    const auto id = fields.Int(absl::StrCat("tokenizer.ggml.", name, "_token_id"));
    if (id.has_value()) AddUnique(*id, ends);
  }
  AddEndsByText(fields.view(), ends);
  if (!ends.empty()) config["eos_token_id"] = ends;
}

json SamplingOf(GgufFields& fields) {
  json generation = json::object();
  if (const auto top_k = fields.Int("general.sampling.top_k")) generation["top_k"] = *top_k;
  if (const auto top_p = fields.Number("general.sampling.top_p")) generation["top_p"] = *top_p;
  if (const auto heat = fields.Number("general.sampling.temp")) generation["temperature"] = *heat;
  return generation;
}

}  // namespace

absl::StatusOr<GgufConfig> MakeGgufConfig(const GgufView& view) {
  GgufFields fields(view);
  const Architecture* architecture = FindArchitecture(fields);
  if (architecture == nullptr) return fields.status();
  GgufConfigWriter writer(fields, architecture->name);
  writer.config()["model_type"] = architecture->model_type;
  architecture->write(writer);
  WriteTokenIds(fields, writer.config());
  const json generation = SamplingOf(fields);
  if (!fields.status().ok()) return fields.status();
  return GgufConfig{writer.config().dump(2), generation.empty() ? "" : generation.dump(2)};
}

}  // namespace sluice
