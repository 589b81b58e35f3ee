#include <vector>

#include "services/model/families.h"
#include "services/model/family_fields.h"

namespace sluice {

constinit const TensorNames kOlmoNames = [] {
  TensorNames names = kLlamaNames;
  names.attention_norm = names.mlp_norm = nullptr;
  names.attention_post_norm = "post_attention_layernorm";
  names.mlp_post_norm = "post_feedforward_layernorm";
  return names;
}();

void MapOlmo2(JsonFields& fields, ModelConfig& config) {
  LayerSpec layer = MapLlamaLike(fields, config);
  MapAttentionBias(fields, false, layer);
  layer.attention.qk_norm = true;
  layer.attention.qk_norm_kind = QkNormKind::kWholeRms;
  layer.norms = {
      .before_attention = false, .before_mlp = false, .after_attention = true, .after_mlp = true};
  SetLayers(layer, config);
  MapRmsNorm(fields, {"rms_norm_eps"}, 1e-5, config);
}

// Layers with a window rotate without scaling.
void MapOlmo3(JsonFields& fields, ModelConfig& config) {
  MapOlmo2(fields, config);
  const std::vector<bool> windowed = MapAlternatingWindows(fields, 4096, 4, config);
  const int local = AddRope(config);
  for (int index = 0; index < config.num_layers(); ++index) {
    if (windowed[index]) config.layers[index].attention.rope = local;
  }
}

}  // namespace sluice
