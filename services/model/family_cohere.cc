#include <vector>

#include "services/model/families.h"
#include "services/model/family_fields.h"

namespace sluice {

void MapCohere(JsonFields& fields, ModelConfig& config) {
  LayerSpec layer = MapLlamaLike(fields, config);
  MapAttentionBias(fields, false, layer);
  config.ropes.front().interleaved = true;
  layer.attention.qk_norm = ReadBool(fields, "use_qk_norm", false);
  layer.attention.qk_norm_kind = QkNormKind::kOwnHeadLayer;
  layer.parallel_residual = true;
  layer.norms.before_mlp = false;
  SetLayers(layer, config);
  MapLayerNorm(fields, {"layer_norm_eps"}, 1e-5, config);
  config.norm_bias = false;
  config.tied_embeddings = ReadBool(fields, "tie_word_embeddings", true);
  config.logit_scale = ReadFactor(fields, "logit_scale", 0.0625);
}

// Layers with a window rotate, the others do not.
void MapCohere2(JsonFields& fields, ModelConfig& config) {
  MapCohere(fields, config);
  const std::vector<bool> windowed = MapAlternatingWindows(fields, 4096, 4, config);
  for (int index = 0; index < config.num_layers(); ++index) {
    if (!windowed[index]) config.layers[index].attention.rope.reset();
  }
}

}  // namespace sluice
