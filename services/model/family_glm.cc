#include "services/model/families.h"
#include "services/model/family_fields.h"

namespace sluice {

constinit const TensorNames kGlmNames = [] {
  TensorNames names = kLlamaNames;
  names.gate = names.up = "mlp.gate_up_proj";
  names.gate_up = Fusion::kStacked;
  return names;
}();

constinit const TensorNames kGlm4Names = [] {
  TensorNames names = kLlamaNames;
  names.gate = names.up = "mlp.gate_up_proj";
  names.gate_up = Fusion::kStacked;
  names.attention_post_norm = "post_self_attn_layernorm";
  names.mlp_post_norm = "post_mlp_layernorm";
  return names;
}();

namespace {

LayerSpec MapGlmLike(JsonFields& fields, ModelConfig& config) {
  LayerSpec layer = MapLlamaLike(fields, config, /*head_dim=*/128);
  layer.attention.qkv_bias = ReadBool(fields, "attention_bias", false);
  config.ropes.front().interleaved = true;
  MapRmsNorm(fields, {"rms_norm_eps"}, 1.5625e-7, config);
  return layer;
}

}  // namespace

void MapGlm(JsonFields& fields, ModelConfig& config) {
  SetLayers(MapGlmLike(fields, config), config);
}

// With norms of what branches add.
void MapGlm4(JsonFields& fields, ModelConfig& config) {
  LayerSpec layer = MapGlmLike(fields, config);
  layer.norms.after_attention = layer.norms.after_mlp = true;
  SetLayers(layer, config);
}

}  // namespace sluice
