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
#include "services/model/gguf/gguf_rope.h"

namespace sluice {
namespace {

using nlohmann::json;

constexpr char kArchitectureKey[] = "general.architecture";
constexpr char kEmbedding[] = "token_embd.weight";
constexpr int64_t kControlToken = 3;  // a value of tokenizer.ggml.token_type

// Tokens that end an answer, where a file's ids name only some of them.
constexpr const char* kEndTexts[] = {"<|eot_id|>",    "<|im_end|>",      "<|end|>",
                                     "<end_of_turn>", "<|end_of_text|>", "<|endoftext|>",
                                     "<|eom_id|>"};

// Writes the fields of one config.json.
class ConfigWriter {
 public:
  ConfigWriter(GgufFields& fields, const std::string& architecture)
      : fields_(fields), prefix_(architecture + ".") {}

  json& config() { return config_; }
  GgufFields& fields() { return fields_; }
  bool HasTensor(std::string_view name) const { return fields_.view().FindTensor(name) != nullptr; }

  std::optional<int64_t> Int(const char* key) { return fields_.Int(prefix_ + key); }

  // These copy the value of a key, where there is one.
  void CopyInt(const char* name, const char* key) { Set(name, Int(key)); }
  void CopyNumber(const char* name, const char* key) { Set(name, fields_.Number(prefix_ + key)); }
  void CopyBool(const char* name, const char* key) { Set(name, fields_.Bool(prefix_ + key)); }

  // The rows of the embedding, which are as many as the model has ids.
  void SetVocabSize() {
    const GgufTensor* embedding = fields_.view().FindTensor(kEmbedding);
    if (embedding == nullptr || embedding->shape.size() != 2) {
      return fields_.Fail(absl::StrCat("tensor \"", kEmbedding, "\" is ",
                                       embedding == nullptr ? "missing" : "no matrix",
                                       "; accepted: a matrix with a row for each token"));
    }
    config_["vocab_size"] = embedding->shape[0];
  }

  void SetTied() { config_["tie_word_embeddings"] = !HasTensor("output.weight"); }

  // Rotation: its base, how much of a head turns, and how positions are scaled.
  void SetRope(const char* fraction_name) {
    CopyNumber("rope_theta", "rope.freq_base");
    const int64_t heads = std::max<int64_t>(Int("attention.head_count").value_or(1), 1);
    const int64_t head_dim =
        Int("attention.key_length").value_or(Int("embedding_length").value_or(0) / heads);
    const int64_t dim = Int("rope.dimension_count").value_or(head_dim);
    if (dim < 2 || dim > head_dim || head_dim > INT32_MAX) {
      return fields_.Reject(prefix_ + "rope.dimension_count",
                            absl::StrCat("2 to the size of a head, ", head_dim));
    }
    // Just above the fraction, so that its product is not rounded down to less.
    if (dim < head_dim) {
      config_[fraction_name] = (static_cast<double>(dim) + 0.25) / static_cast<double>(head_dim);
    }
    json scaling = GgufRopeScaling(fields_, {.prefix = prefix_,
                                             .theta = config_.value("rope_theta", 1e4),
                                             .dim = dim,
                                             .max_positions = Int("context_length").value_or(0)});
    if (!scaling.is_null()) config_["rope_scaling"] = std::move(scaling);
  }

 private:
  template <typename T>
  void Set(const char* name, const std::optional<T>& value) {
    if (value.has_value()) config_[name] = *value;
  }

  GgufFields& fields_;
  const std::string prefix_;
  json config_ = json::object();
};

// ---- Architectures ----

// The sizes under the names that most families have.
void WriteSizes(ConfigWriter& writer) {
  writer.SetVocabSize();
  writer.CopyInt("hidden_size", "embedding_length");
  writer.CopyInt("intermediate_size", "feed_forward_length");
  writer.CopyInt("num_hidden_layers", "block_count");
  writer.CopyInt("num_attention_heads", "attention.head_count");
  writer.CopyInt("num_key_value_heads", "attention.head_count_kv");
  writer.CopyInt("head_dim", "attention.key_length");
  writer.CopyInt("max_position_embeddings", "context_length");
  writer.SetTied();
}

void WriteRotary(ConfigWriter& writer) {
  WriteSizes(writer);
  writer.CopyNumber("rms_norm_eps", "attention.layer_norm_rms_epsilon");
  writer.SetRope("partial_rotary_factor");
}

void WriteBiases(ConfigWriter& writer) {
  writer.config()["attention_bias"] = writer.HasTensor("blk.0.attn_q.bias");
  writer.config()["mlp_bias"] = writer.HasTensor("blk.0.ffn_gate.bias");
}

// Llama's architecture is also that of Mistral, with a window, and of Mixtral.
void WriteLlama(ConfigWriter& writer) {
  WriteRotary(writer);
  WriteBiases(writer);
  if (const auto window = writer.Int("attention.sliding_window"); window.value_or(0) > 0) {
    writer.config()["model_type"] = "mistral";
    writer.config()["sliding_window"] = *window;
  }
  if (writer.Int("expert_count").value_or(0) > 0) {
    writer.fields().Reject("llama.expert_count",
                           "none: mixtures of experts (mixtral) are not read from GGUF files",
                           absl::StatusCode::kUnimplemented);
  }
}

void WriteSmolLm3(ConfigWriter& writer) {
  WriteRotary(writer);
  WriteBiases(writer);
}

void WriteQwen3(ConfigWriter& writer) {
  WriteRotary(writer);
  writer.config()["attention_bias"] = writer.HasTensor("blk.0.attn_q.bias");
}

void WritePhi3(ConfigWriter& writer) {
  WriteRotary(writer);
  if (const auto window = writer.Int("attention.sliding_window"); window.value_or(0) > 0) {
    writer.config()["sliding_window"] = *window;
  }
}

void WriteGpt2(ConfigWriter& writer) {
  writer.SetVocabSize();
  writer.CopyInt("n_embd", "embedding_length");
  writer.CopyInt("n_inner", "feed_forward_length");
  writer.CopyInt("n_layer", "block_count");
  writer.CopyInt("n_head", "attention.head_count");
  writer.CopyInt("n_positions", "context_length");
  writer.CopyNumber("layer_norm_epsilon", "attention.layer_norm_epsilon");
  writer.SetTied();
}

void WriteGptNeox(ConfigWriter& writer) {
  WriteSizes(writer);
  writer.CopyNumber("layer_norm_eps", "attention.layer_norm_epsilon");
  writer.CopyBool("use_parallel_residual", "use_parallel_residual");
  writer.config()["rotary_pct"] = 1.0;
  writer.SetRope("rotary_pct");
}

struct Architecture {
  const char* name;        // the value of general.architecture
  const char* model_type;  // unless `write` sets another
  void (*write)(ConfigWriter& writer);
};

constexpr Architecture kArchitectures[] = {
    {"llama", "llama", WriteLlama},  {"qwen2", "qwen2", WriteRotary},
    {"qwen3", "qwen3", WriteQwen3},  {"smollm3", "smollm3", WriteSmolLm3},
    {"gemma", "gemma", WriteRotary}, {"phi3", "phi3", WritePhi3},
    {"gpt2", "gpt2", WriteGpt2},     {"gptneox", "gpt_neox", WriteGptNeox},
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
  ConfigWriter writer(fields, architecture->name);
  writer.config()["model_type"] = architecture->model_type;
  architecture->write(writer);
  WriteTokenIds(fields, writer.config());
  const json generation = SamplingOf(fields);
  if (!fields.status().ok()) return fields.status();
  return GgufConfig{writer.config().dump(2), generation.empty() ? "" : generation.dump(2)};
}

}  // namespace sluice
