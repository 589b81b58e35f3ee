#include "services/model/families.h"
#include "services/model/family_fields.h"

namespace sluice {

// ---- StarCoder 2 ----

constinit const TensorNames kStarCoder2Names = [] {
  TensorNames names = kLlamaNames;
  names.gate = nullptr;
  names.up = "mlp.c_fc";
  names.down = "mlp.c_proj";
  return names;
}();

void MapStarCoder2(JsonFields& fields, ModelConfig& config) {
  LayerSpec layer = MapSizes(fields, config);
  layer.attention.rope = AddRope(config);
  const bool bias = ReadBool(fields, "use_bias", true);
  layer.attention.qkv_bias = layer.attention.o_bias = bias;
  DenseMlpSpec& mlp = DenseMlpOf(layer);
  mlp.activation = ReadActivation(fields, "hidden_act", Activation::kGeluTanh);
  mlp.gated = false;
  mlp.bias = bias;
  SetLayers(layer, config);
  MapWindow(fields, 0, config);
  MapLayerNorm(fields, {"norm_epsilon"}, 1e-5, config);
  config.tied_embeddings = ReadBool(fields, "tie_word_embeddings", true);
}

// ---- StableLM: a quarter of a head rotated ----

constinit const TensorNames kStableLmNames = [] {
  TensorNames names = kLlamaNames;
  names.q_norm = "self_attn.q_layernorm.norms.$1";
  names.k_norm = "self_attn.k_layernorm.norms.$1";
  return names;
}();

void MapStableLm(JsonFields& fields, ModelConfig& config) {
  LayerSpec layer = MapLlamaLike(fields, config);
  layer.attention.qkv_bias = ReadBool(fields, "use_qkv_bias", false);
  layer.attention.qk_norm = ReadBool(fields, "qk_layernorm", false);
  layer.attention.qk_norm_kind = QkNormKind::kOwnHeadLayer;
  layer.parallel_residual = ReadBool(fields, "use_parallel_residual", false);
  layer.norms.before_mlp = !layer.parallel_residual;
  SetLayers(layer, config);
  MapLayerNorm(fields, {"layer_norm_eps"}, 1e-5, config);
}

}  // namespace sluice
