#include <cmath>

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

}  // namespace sluice
