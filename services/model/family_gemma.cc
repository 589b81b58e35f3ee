#include <cmath>
#include <vector>

#include "services/model/families.h"
#include "services/model/family_fields.h"

namespace sluice {

void MapGemma(JsonFields& fields, ModelConfig& config) {
  LayerSpec layer = MapLlamaLike(fields, config, /*head_dim=*/256);
  // Its files' hidden_act is what the first ones said by mistake.
  DenseMlpOf(layer).activation = ReadActivation(fields, "hidden_activation", Activation::kGeluTanh);
  MapAttentionBias(fields, false, layer);
  SetLayers(layer, config);
  config.tied_embeddings = ReadBool(fields, "tie_word_embeddings", true);
  config.norm_weight_offset = 1;
  config.embedding_scale = static_cast<float>(std::sqrt(double{1} * config.hidden_size));
}

// ---- Gemma 2 and 3: norms before and after both branches, windows in most layers ----

constinit const TensorNames kGemma2Names = [] {
  TensorNames names = kLlamaNames;
  names.attention_post_norm = "post_attention_layernorm";
  names.mlp_norm = "pre_feedforward_layernorm";
  names.mlp_post_norm = "post_feedforward_layernorm";
  return names;
}();

namespace {

// What Gemma 2 adds to Gemma. Returns which layers have a window.
std::vector<bool> MapGemma2Like(JsonFields& fields, float softcap, int pattern,
                                ModelConfig& config) {
  MapGemma(fields, config);
  const float scalar = ReadFactor(fields, "query_pre_attn_scalar", 256);
  for (LayerSpec& layer : config.layers) {
    layer.norms.after_attention = layer.norms.after_mlp = true;
    layer.attention.scale = 1 / std::sqrt(scalar);
    layer.attention.softcap = ReadSoftCap(fields, "attn_logit_softcapping", softcap);
  }
  return MapAlternatingWindows(fields, 4096, pattern, config);
}

}  // namespace

void MapGemma2(JsonFields& fields, ModelConfig& config) {
  MapGemma2Like(fields, 50, 2, config);
  config.logit_softcap = ReadSoftCap(fields, "final_logit_softcapping", 30);
}

// Layers with a window have a rotation of their own, and heads are normalised.
void MapGemma3(JsonFields& fields, ModelConfig& config) {
  const std::vector<bool> windowed = MapGemma2Like(fields, 0, 6, config);
  config.logit_softcap = ReadSoftCap(fields, "final_logit_softcapping", 0);
  config.ropes.front().theta = 1e6;
  const int local = AddRope(config);
  for (int index = 0; index < config.num_layers(); ++index) {
    AttentionSpec& attention = config.layers[index].attention;
    attention.qk_norm = true;
    if (windowed[index]) attention.rope = local;
  }
}

}  // namespace sluice
