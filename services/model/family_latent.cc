#include <cstdint>

#include "absl/strings/str_cat.h"
#include "services/model/families.h"
#include "services/model/family_fields.h"

namespace sluice {

constinit const TensorNames kDeepSeekNames = {
    .embedding = "model.embed_tokens",
    .final_norm = "model.norm",
    .head = "lm_head",
    .layer = "model.layers.$0.",
    .attention_norm = "input_layernorm",
    .q = "self_attn.q_proj",
    .o = "self_attn.o_proj",
    .q_a = "self_attn.q_a_proj",
    .q_a_norm = "self_attn.q_a_layernorm",
    .q_b = "self_attn.q_b_proj",
    .kv_a = "self_attn.kv_a_proj_with_mqa",
    .kv_a_norm = "self_attn.kv_a_layernorm",
    .kv_b = "self_attn.kv_b_proj",
    .mlp_norm = "post_attention_layernorm",
    .gate = "mlp.gate_proj",
    .up = "mlp.up_proj",
    .down = "mlp.down_proj",
    .router = "mlp.gate",
    .choice_bias = "mlp.gate.e_score_correction_bias",
    .expert_gate = "mlp.experts.$1.gate_proj",
    .expert_up = "mlp.experts.$1.up_proj",
    .expert_down = "mlp.experts.$1.down_proj",
    .shared_gate = "mlp.shared_experts.gate_proj",
    .shared_up = "mlp.shared_experts.up_proj",
    .shared_down = "mlp.shared_experts.down_proj",
};

namespace {

// What a family's files mean where they leave a field out.
struct LatentDefaults {
  LatentSpec attention;
  double norm_eps = 1e-6;
};

int EvenInt(JsonFields& fields, const char* name, int otherwise) {
  const int value = fields.OptionalInt(name, 2, kMaxHeadDim).value_or(otherwise);
  if (value % 2 != 0) fields.Reject(name, absl::StrCat("an even number from 2 to ", kMaxHeadDim));
  return value;
}

LatentSpec ReadLatent(JsonFields& fields, const LatentSpec& defaults) {
  LatentSpec latent = defaults;
  // A file that has null for it has queries without a latent.
  latent.query_rank =
      fields.IsNull("q_lora_rank")
          ? 0
          : fields.OptionalInt("q_lora_rank", 1, kMaxWidth).value_or(defaults.query_rank);
  latent.rank = EvenInt(fields, "kv_lora_rank", defaults.rank);
  latent.rope_dim = EvenInt(fields, "qk_rope_head_dim", defaults.rope_dim);
  latent.nope_dim =
      fields.OptionalInt("qk_nope_head_dim", 1, kMaxHeadDim).value_or(defaults.nope_dim);
  latent.value_dim = fields.OptionalInt("v_head_dim", 1, kMaxHeadDim).value_or(defaults.value_dim);
  latent.bias = ReadBool(fields, "attention_bias", false);
  return latent;
}

// Sizes, with the heads of latent attention. Returns the layer but for its latent.
LayerSpec MapLatentSizes(JsonFields& fields, const LatentSpec& latent, ModelConfig& config) {
  config.vocab_size = fields.Int("vocab_size", 1, kMaxVocabSize);
  config.hidden_size = fields.Int("hidden_size", 1, kMaxWidth);
  const int mlp_width = fields.Int("intermediate_size", 1, kMaxWidth);
  config.layers.resize(fields.Int("num_hidden_layers", 1, kMaxLayers));
  config.max_positions = fields.Int("max_position_embeddings", 1, kMaxPositions);
  // Every head has keys and values of its own, whatever num_key_value_heads says.
  config.num_heads = config.num_kv_heads = fields.Int("num_attention_heads", 1, kMaxHeads);
  config.head_dim = latent.query_dim();
  LayerSpec layer = CheckSizes(fields, config);
  const int64_t mapped = int64_t{config.num_heads} * (latent.nope_dim + latent.value_dim);
  if (mapped > kMaxWidth) {
    fields.Fail(absl::StrCat("num_attention_heads ", config.num_heads, " times qk_nope_head_dim ",
                             latent.nope_dim, " and v_head_dim ", latent.value_dim, " is above ",
                             kMaxWidth));
  }
  layer.mlp = DenseMlpSpec{.width = mlp_width};
  return layer;
}

void MapLatentFamily(JsonFields& fields, const LatentDefaults& defaults, ModelConfig& config) {
  const LatentSpec latent = ReadLatent(fields, defaults.attention);
  LayerSpec layer = MapLatentSizes(fields, latent, config);
  layer.attention.latent = latent;
  layer.attention.o_bias = latent.bias;
  layer.attention.rope = AddRope(config);
  config.ropes.front().interleaved = ReadBool(fields, "rope_interleave", true);
  DenseMlpOf(layer).activation = ReadActivation(fields, "hidden_act", Activation::kSilu);
  MapRmsNorm(fields, {"rms_norm_eps"}, defaults.norm_eps, config);
  config.tied_embeddings = ReadBool(fields, "tie_word_embeddings", false);
  SetLayers(layer, config);
  MapDeepseekMixtures(fields, config);
}

constexpr LatentSpec kDeepSeekLatent = {
    .query_rank = 1536, .rank = 512, .nope_dim = 128, .rope_dim = 64, .value_dim = 128};
constexpr LatentSpec kGlmLatent = {
    .query_rank = 768, .rank = 512, .nope_dim = 192, .rope_dim = 64, .value_dim = 256};

}  // namespace

void MapDeepSeek(JsonFields& fields, ModelConfig& config) {
  MapLatentFamily(fields, {.attention = kDeepSeekLatent}, config);
}

void MapGlm4MoeLite(JsonFields& fields, ModelConfig& config) {
  MapLatentFamily(fields, {.attention = kGlmLatent, .norm_eps = 1e-5}, config);
}

}  // namespace sluice
