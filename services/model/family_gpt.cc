#include <optional>

#include "absl/strings/str_cat.h"
#include "services/model/families.h"
#include "services/model/family_fields.h"

namespace sluice {
namespace {

LayerSpec MapGpt2Sizes(JsonFields& fields, ModelConfig& config) {
  config.vocab_size = fields.Int("vocab_size", 1, kMaxVocabSize);
  config.hidden_size = fields.Int("n_embd", 1, kMaxWidth / 4);
  const std::optional<int> mlp_width = fields.OptionalInt("n_inner", 1, kMaxWidth);
  config.layers.resize(fields.Int("n_layer", 1, kMaxLayers));
  config.max_positions = fields.Int("n_positions", 1, kMaxPositions);
  config.num_heads = config.num_kv_heads = fields.Int("n_head", 1, kMaxHeads);
  if (config.hidden_size % config.num_heads != 0) {
    fields.Reject("n_embd", absl::StrCat("a multiple of n_head, ", config.num_heads));
  }
  config.head_dim = config.hidden_size / config.num_heads;
  LayerSpec layer = CheckSizes(fields, config);
  layer.mlp = DenseMlpSpec{.width = mlp_width.value_or(4 * config.hidden_size)};
  return layer;
}

// Scores are divided by the layer's number, counted from 1.
void ScaleByLayer(ModelConfig& config) {
  for (int index = 0; index < config.num_layers(); ++index) {
    config.layers[index].attention.scale /= static_cast<float>(index + 1);
  }
}

}  // namespace

// ---- GPT-2 ----

constinit const TensorNames kGpt2Names = {
    .embedding = "transformer.wte",
    .positions = "transformer.wpe",
    .final_norm = "transformer.ln_f",
    .head = "lm_head",
    .layer = "transformer.h.$0.",
    .attention_norm = "ln_1",
    .q = "attn.c_attn",
    .k = "attn.c_attn",
    .v = "attn.c_attn",
    .o = "attn.c_proj",
    .mlp_norm = "ln_2",
    .up = "mlp.c_fc",
    .down = "mlp.c_proj",
    .qkv = Fusion::kStacked,
    .transposed = true,
    .optional_prefix = "transformer.",
};

void MapGpt2(JsonFields& fields, ModelConfig& config) {
  LayerSpec layer = MapGpt2Sizes(fields, config);
  if (!ReadBool(fields, "scale_attn_weights", true)) layer.attention.scale = 1;
  layer.attention.qkv_bias = layer.attention.o_bias = true;
  DenseMlpSpec& mlp = DenseMlpOf(layer);
  mlp.activation = ReadActivation(fields, "activation_function", Activation::kGeluTanh);
  mlp.gated = false;
  mlp.bias = true;
  SetLayers(layer, config);
  if (ReadBool(fields, "scale_attn_by_inverse_layer_idx", false)) ScaleByLayer(config);
  MapLayerNorm(fields, {"layer_norm_epsilon"}, 1e-5, config);
  config.position = PositionKind::kLearned;
  config.tied_embeddings = ReadBool(fields, "tie_word_embeddings", true);
}

// ---- GPT-NeoX ----

constinit const TensorNames kGptNeoxNames = {
    .embedding = "gpt_neox.embed_in",
    .final_norm = "gpt_neox.final_layer_norm",
    .head = "embed_out",
    .layer = "gpt_neox.layers.$0.",
    .attention_norm = "input_layernorm",
    .q = "attention.query_key_value",
    .k = "attention.query_key_value",
    .v = "attention.query_key_value",
    .o = "attention.dense",
    .mlp_norm = "post_attention_layernorm",
    .up = "mlp.dense_h_to_4h",
    .down = "mlp.dense_4h_to_h",
    .qkv = Fusion::kByHead,
};

void MapGptNeox(JsonFields& fields, ModelConfig& config) {
  LayerSpec layer = MapSizes(fields, config);
  if (config.num_kv_heads != config.num_heads) {
    fields.Reject("num_key_value_heads", "none: every head has keys and values of its own");
  }
  layer.attention.rope = AddRope(config);
  MapAttentionBias(fields, true, layer);
  DenseMlpSpec& mlp = DenseMlpOf(layer);
  mlp.activation = ReadActivation(fields, "hidden_act", Activation::kGelu);
  mlp.gated = false;
  mlp.bias = true;
  layer.parallel_residual = ReadBool(fields, "use_parallel_residual", true);
  SetLayers(layer, config);
  MapLayerNorm(fields, {"layer_norm_eps"}, 1e-5, config);
  config.tied_embeddings = ReadBool(fields, "tie_word_embeddings", false);
}

}  // namespace sluice
