#include "services/model/families.h"
#include "services/model/family_fields.h"

namespace sluice {

// Phi-3: Llama with fused projections.
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
