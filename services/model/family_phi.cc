#include "services/model/families.h"
#include "services/model/family_fields.h"

namespace sluice {

// ---- Phi-1.5 and 2: parallel branches that read one LayerNorm, biases everywhere ----

constinit const TensorNames kPhiNames = [] {
  TensorNames names = kLlamaNames;
  names.final_norm = "model.final_layernorm";
  names.q_norm = "self_attn.q_layernorm";
  names.k_norm = "self_attn.k_layernorm";
  names.o = "self_attn.dense";
  names.up = "mlp.fc1";
  names.down = "mlp.fc2";
  return names;
}();

void MapPhi(JsonFields& fields, ModelConfig& config) {
  LayerSpec layer = MapSizes(fields, config);
  layer.attention.rope = AddRope(config);
  layer.attention.qkv_bias = layer.attention.o_bias = true;
  layer.attention.qk_norm = ReadBool(fields, "qk_layernorm", false);
  layer.attention.qk_norm_kind = QkNormKind::kHeadLayer;
  DenseMlpSpec& mlp = DenseMlpOf(layer);
  mlp.activation = ReadActivation(fields, "hidden_act", Activation::kGeluTanh);
  mlp.gated = false;
  mlp.bias = true;
  layer.parallel_residual = true;
  layer.norms.before_mlp = false;
  SetLayers(layer, config);
  MapLayerNorm(fields, {"layer_norm_eps"}, 1e-5, config);
  config.tied_embeddings = ReadBool(fields, "tie_word_embeddings", false);
  config.head_bias = true;
}

// ---- Phi-3: Llama with fused projections ----

constinit const TensorNames kPhi3Names = [] {
  TensorNames names = kLlamaNames;
  names.q = names.k = names.v = "self_attn.qkv_proj";
  names.gate = names.up = "mlp.gate_up_proj";
  names.qkv = names.gate_up = Fusion::kStacked;
  return names;
}();

void MapPhi3(JsonFields& fields, ModelConfig& config) {
  LayerSpec layer = MapSizes(fields, config);
  layer.attention.rope = AddRope(config);
  DenseMlpOf(layer).activation = ReadActivation(fields, "hidden_act", Activation::kSilu);
  SetLayers(layer, config);
  MapWindow(fields, 0, config);
  MapRmsNorm(fields, {"rms_norm_eps"}, 1e-5, config);
  config.tied_embeddings = ReadBool(fields, "tie_word_embeddings", false);
}

}  // namespace sluice
