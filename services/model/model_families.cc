#include "services/model/model_families.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace sluice {
namespace {

// Far above any model, low enough that products of two sizes fit 63 bits and a typing error shows.
constexpr int kMaxVocabSize = 1 << 24;
constexpr int kMaxWidth = 1 << 22;
constexpr int kMaxLayers = 4096;
constexpr int kMaxHeads = 4096;
constexpr int kMaxHeadDim = 4096;
constexpr int kMaxPositions = 1 << 28;

constexpr TensorNames kLlamaNames = {
    .layer =
        {
            "model.layers.$0.input_layernorm.weight",
            "model.layers.$0.self_attn.q_proj.weight",
            "model.layers.$0.self_attn.k_proj.weight",
            "model.layers.$0.self_attn.v_proj.weight",
            "model.layers.$0.self_attn.o_proj.weight",
            "model.layers.$0.post_attention_layernorm.weight",
            "model.layers.$0.mlp.gate_proj.weight",
            "model.layers.$0.mlp.up_proj.weight",
            "model.layers.$0.mlp.down_proj.weight",
            "model.layers.$0.self_attn.q_proj.bias",
            "model.layers.$0.self_attn.k_proj.bias",
            "model.layers.$0.self_attn.v_proj.bias",
            "model.layers.$0.self_attn.o_proj.bias",
            "model.layers.$0.mlp.gate_proj.bias",
            "model.layers.$0.mlp.up_proj.bias",
            "model.layers.$0.mlp.down_proj.bias",
        },
    .model = {"model.embed_tokens.weight", "model.norm.weight", "lm_head.weight"},
};

// Sizes under the names that most families share.
void MapSizes(JsonFields& fields, ModelConfig& config) {
  config.vocab_size = fields.Int("vocab_size", 1, kMaxVocabSize);
  config.hidden_size = fields.Int("hidden_size", 1, kMaxWidth);
  config.intermediate_size = fields.Int("intermediate_size", 1, kMaxWidth);
  config.num_layers = fields.Int("num_hidden_layers", 1, kMaxLayers);
  config.max_positions = fields.Int("max_position_embeddings", 1, kMaxPositions);
}

void MapHeads(JsonFields& fields, ModelConfig& config) {
  config.num_heads = fields.Int("num_attention_heads", 1, kMaxHeads);
  config.num_kv_heads =
      fields.OptionalInt("num_key_value_heads", 1, kMaxHeads).value_or(config.num_heads);
  if (config.num_heads % config.num_kv_heads != 0) {
    fields.Reject("num_key_value_heads",
                  absl::StrCat("a divisor of num_attention_heads, ", config.num_heads));
  }
  if (!fields.Has("head_dim") && config.hidden_size % config.num_heads != 0) {
    fields.Reject("hidden_size", absl::StrCat("a multiple of num_attention_heads, ",
                                              config.num_heads, ", where head_dim is not given"));
  }
  config.head_dim = fields.OptionalInt("head_dim", 1, kMaxHeadDim)
                        .value_or(config.hidden_size / config.num_heads);
  if (int64_t{config.num_heads} * config.head_dim > kMaxWidth) {
    fields.Fail(absl::StrCat("num_attention_heads ", config.num_heads, " times head_dim ",
                             config.head_dim, " is above ", kMaxWidth));
  }
}

// Only "default" turns are implemented; `scaling` is a rope_scaling or rope_parameters object.
void RefuseScaling(JsonFields& scaling) {
  const char* key = scaling.Has("rope_type") ? "rope_type" : "type";
  const std::string kind = scaling.String(key).value_or("default");
  if (kind != "default") {
    scaling.Reject(key, "\"default\": scaled RoPE is not supported by this version",
                   absl::StatusCode::kUnimplemented);
  }
}

void RefusePartialRotation(JsonFields& fields) {
  if (fields.NumberAbove("partial_rotary_factor", 0, 1).value_or(1) != 1) {
    fields.Reject("partial_rotary_factor", "1: partial rotation is not supported by this version",
                  absl::StatusCode::kUnimplemented);
  }
}

// rope_theta stands at the top, or in `rope_parameters` as newer files have it, which then wins.
void MapRope(JsonFields& fields, ModelConfig& config) {
  constexpr double kDefaultTheta = 10000;
  constexpr double kMaxTheta = 1e15;
  config.position = PositionKind::kRopeHalfSplit;
  config.rope_theta = fields.NumberAbove("rope_theta", 0, kMaxTheta).value_or(kDefaultTheta);
  RefusePartialRotation(fields);
  for (const char* name : {"rope_scaling", "rope_parameters"}) {
    if (!fields.Has(name)) continue;
    JsonFields inner = fields.Inner(name);
    config.rope_theta = inner.NumberAbove("rope_theta", 0, kMaxTheta).value_or(config.rope_theta);
    RefuseScaling(inner);
    RefusePartialRotation(inner);
    fields.Adopt(inner);
  }
  if (config.head_dim % 2 != 0) {
    const std::string accepted = "an even head_dim, as rotary positions turn pairs";
    fields.Has("head_dim")
        ? fields.Reject("head_dim", accepted)
        : fields.Fail(absl::StrCat("hidden_size ", config.hidden_size, " over num_attention_heads ",
                                   config.num_heads, " gives head_dim ", config.head_dim,
                                   "; accepted: ", accepted));
  }
}

void MapSiluMlp(JsonFields& fields, ModelConfig& config) {
  config.mlp = MlpKind::kSwiGlu;
  const std::string activation = fields.String("hidden_act").value_or("silu");
  if (activation != "silu" && activation != "swish") {
    fields.Reject("hidden_act", "\"silu\" or \"swish\"", absl::StatusCode::kUnimplemented);
  }
}

void MapLlama(JsonFields& fields, ModelConfig& config) {
  MapSizes(fields, config);
  MapHeads(fields, config);
  MapRope(fields, config);
  MapSiluMlp(fields, config);
  config.norm = NormKind::kRmsNorm;
  config.norm_eps =
      static_cast<float>(fields.NumberAtLeast("rms_norm_eps", 1e-30, 1).value_or(1e-6));
  config.qkv_bias = config.o_bias = fields.Bool("attention_bias").value_or(false);
  config.mlp_bias = fields.Bool("mlp_bias").value_or(false);
  config.tied_embeddings = fields.Bool("tie_word_embeddings").value_or(false);
}

constexpr ModelFamily kFamilies[] = {
    {"llama", MapLlama, &kLlamaNames},
};

}  // namespace

const ModelFamily* FindModelFamily(const std::string& model_type) {
  for (const ModelFamily& family : kFamilies) {
    if (family.model_type == model_type) return &family;
  }
  return nullptr;
}

std::string KnownModelTypes() {
  return absl::StrJoin(kFamilies, ", ", [](std::string* out, const ModelFamily& family) {
    absl::StrAppend(out, "\"", family.model_type, "\"");
  });
}

}  // namespace sluice
