#include "services/model/families.h"
#include "services/model/family_fields.h"

namespace sluice {
namespace {

// From layer max_window_layers on, unless the file names the layers.
void MapQwenWindow(JsonFields& fields, ModelConfig& config) {
  const int first = fields.OptionalInt("max_window_layers", 0, kMaxLayers).value_or(28);
  MapWindowOfSomeLayers(
      fields, 4096, [first](int layer) { return layer >= first; }, config);
}

}  // namespace

LayerSpec MapLlamaLike(JsonFields& fields, ModelConfig& config, int head_dim) {
  LayerSpec layer = MapSizes(fields, config, head_dim);
  layer.attention.rope = AddRope(config);
  DenseMlpOf(layer).activation = ReadActivation(fields, "hidden_act", Activation::kSilu);
  MapRmsNorm(fields, {"rms_norm_eps"}, 1e-6, config);
  config.tied_embeddings = ReadBool(fields, "tie_word_embeddings", false);
  return layer;
}

void MapLlama(JsonFields& fields, ModelConfig& config) {
  LayerSpec layer = MapLlamaLike(fields, config);
  MapAttentionBias(fields, false, layer);
  DenseMlpOf(layer).bias = ReadBool(fields, "mlp_bias", false);
  SetLayers(layer, config);
}

void MapMistral(JsonFields& fields, ModelConfig& config) {
  SetLayers(MapLlamaLike(fields, config), config);
  MapWindow(fields, 4096, config);
}

void MapQwen2(JsonFields& fields, ModelConfig& config) {
  LayerSpec layer = MapLlamaLike(fields, config);
  layer.attention.qkv_bias = true;
  SetLayers(layer, config);
  MapQwenWindow(fields, config);
}

void MapQwen3(JsonFields& fields, ModelConfig& config) {
  LayerSpec layer = MapLlamaLike(fields, config, /*head_dim=*/128);
  layer.attention.qk_norm = true;
  MapAttentionBias(fields, false, layer);
  SetLayers(layer, config);
  MapQwenWindow(fields, config);
}

// Llama with layers that do not rotate, and a window, where there is one, in just these.
void MapSmolLm3(JsonFields& fields, ModelConfig& config) {
  LayerSpec layer = MapLlamaLike(fields, config);
  MapAttentionBias(fields, false, layer);
  DenseMlpOf(layer).bias = ReadBool(fields, "mlp_bias", false);
  SetLayers(layer, config);
  config.ropes.front().theta = 2e6;
  MapLayersWithoutRope(fields, 4, config);
  const auto rotates_not = [&](int index) {
    return !config.layers[index].attention.rope.has_value();
  };
  MapWindowOfSomeLayers(fields, 0, rotates_not, config);
  config.tied_embeddings = ReadBool(fields, "tie_word_embeddings", true);
}

}  // namespace sluice
