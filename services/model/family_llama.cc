#include <cmath>
#include <optional>

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

// ---- Ministral: Mistral with windows in some layers, or with queries that grow ----

void MapMinistral(JsonFields& fields, ModelConfig& config) {
  SetLayers(MapLlamaLike(fields, config), config);
  // Without layer_types every layer has one.
  MapAlternatingWindows(fields, 4096, kMaxLayers + 1, config);
}

namespace {

// The growth of queries that the object of the rotation names.
std::optional<QueryGrowth> ReadQueryGrowth(JsonFields& fields, const ModelConfig& config) {
  const char* name = fields.Has("rope_scaling") ? "rope_scaling" : "rope_parameters";
  if (!fields.Has(name)) return std::nullopt;
  JsonFields rope = fields.Inner(name);
  const auto beta = rope.NumberAbove("llama_4_scaling_beta", 0, 1e3);
  const char* const original = "original_max_position_embeddings";
  const int unit =
      rope.OptionalInt(original, 1, kMaxPositions)
          .value_or(fields.OptionalInt(original, 1, kMaxPositions).value_or(config.max_positions));
  fields.Adopt(rope);
  if (!beta.has_value()) return std::nullopt;
  return QueryGrowth{.beta = static_cast<float>(*beta), .unit = unit};
}

}  // namespace

void MapMinistral3(JsonFields& fields, ModelConfig& config) {
  LayerSpec layer = MapLlamaLike(fields, config, /*head_dim=*/128);
  layer.attention.growth = ReadQueryGrowth(fields, config);
  SetLayers(layer, config);
  MapRmsNorm(fields, {"rms_norm_eps"}, 1e-5, config);
  MapWindow(fields, 0, config);
}

// ---- ERNIE 4.5: neighbouring pairs rotated, one switch for all biases ----

void MapErnie(JsonFields& fields, ModelConfig& config) {
  LayerSpec layer = MapLlamaLike(fields, config, /*head_dim=*/128);
  config.ropes.front().interleaved = true;
  config.ropes.front().theta = 500000;
  const bool bias = ReadBool(fields, "use_bias", false);
  layer.attention.qkv_bias = layer.attention.o_bias = DenseMlpOf(layer).bias = bias;
  SetLayers(layer, config);
  MapRmsNorm(fields, {"rms_norm_eps"}, 1e-5, config);
  config.tied_embeddings = ReadBool(fields, "tie_word_embeddings", true);
}

// ---- Granite and MiniCPM: Llama with constants that multiply ----

void MapGranite(JsonFields& fields, ModelConfig& config) {
  LayerSpec layer = MapLlamaLike(fields, config);
  MapAttentionBias(fields, false, layer);
  DenseMlpOf(layer).bias = ReadBool(fields, "mlp_bias", false);
  layer.attention.scale = ReadFactor(fields, "attention_multiplier", 1);
  layer.residual_multiplier = ReadFactor(fields, "residual_multiplier", 1);
  SetLayers(layer, config);
  config.embedding_scale = ReadFactor(fields, "embedding_multiplier", 1);
  config.logit_scale = 1 / ReadFactor(fields, "logits_scaling", 1);
}

void MapMiniCpm(JsonFields& fields, ModelConfig& config) {
  LayerSpec layer = MapLlamaLike(fields, config);
  MapAttentionBias(fields, false, layer);
  layer.residual_multiplier =
      ReadFactor(fields, "scale_depth", 1) / std::sqrt(static_cast<float>(config.num_layers()));
  SetLayers(layer, config);
  config.tied_embeddings = ReadBool(fields, "tie_word_embeddings", true);
  config.embedding_scale = ReadFactor(fields, "scale_emb", 1);
  config.logit_scale =
      ReadFactor(fields, "dim_model_base", 1) / static_cast<float>(config.hidden_size);
}

// ---- InternLM 2: Llama with other names, and queries, keys and values fused by head ----

constinit const TensorNames kInternLm2Names = {
    .embedding = "model.tok_embeddings",
    .final_norm = "model.norm",
    .head = "output",
    .layer = "model.layers.$0.",
    .attention_norm = "attention_norm",
    .q = "attention.wqkv",
    .k = "attention.wqkv",
    .v = "attention.wqkv",
    .o = "attention.wo",
    .mlp_norm = "ffn_norm",
    .gate = "feed_forward.w1",
    .up = "feed_forward.w3",
    .down = "feed_forward.w2",
    .qkv = Fusion::kByHead,
};

void MapInternLm2(JsonFields& fields, ModelConfig& config) {
  LayerSpec layer = MapLlamaLike(fields, config);
  layer.attention.qkv_bias = layer.attention.o_bias = ReadBool(fields, "bias", false);
  SetLayers(layer, config);
}

}  // namespace sluice
