#include "services/model/family_fields.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace sluice {
namespace {

struct ActivationName {
  const char* name;
  Activation activation;
};

constexpr ActivationName kActivations[] = {
    {"relu", Activation::kRelu},
    {"silu", Activation::kSilu},
    {"swish", Activation::kSilu},
    {"gelu", Activation::kGelu},
    {"gelu_new", Activation::kGeluTanh},
    {"gelu_fast", Activation::kGeluTanh},
    {"gelu_pytorch_tanh", Activation::kGeluTanh},
};

float ReadEps(JsonFields& fields, std::initializer_list<const char*> names, double otherwise) {
  for (const char* name : names) {
    if (const auto eps = fields.NumberAtLeast(name, 1e-30, 1)) return static_cast<float>(*eps);
  }
  return static_cast<float>(otherwise);
}

void MapHeads(JsonFields& fields, int head_dim, ModelConfig& config) {
  config.num_heads = fields.Int("num_attention_heads", 1, kMaxHeads);
  config.num_kv_heads =
      fields.OptionalInt("num_key_value_heads", 1, kMaxHeads).value_or(config.num_heads);
  if (config.num_heads % config.num_kv_heads != 0) {
    fields.Reject("num_key_value_heads",
                  absl::StrCat("a divisor of num_attention_heads, ", config.num_heads));
  }
  if (!fields.Has("head_dim") && head_dim == 0 && config.hidden_size % config.num_heads != 0) {
    fields.Reject("hidden_size", absl::StrCat("a multiple of num_attention_heads, ",
                                              config.num_heads, ", where head_dim is not given"));
  }
  config.head_dim = fields.OptionalInt("head_dim", 1, kMaxHeadDim)
                        .value_or(head_dim > 0 ? head_dim : config.hidden_size / config.num_heads);
}

// Whether each layer has a window, from a list with a kind for each.
std::optional<std::vector<bool>> ReadLayerTypes(JsonFields& fields, int num_layers) {
  const nlohmann::json* list = fields.Get("layer_types");
  if (list == nullptr) return std::nullopt;
  std::vector<bool> windowed;
  if (list->is_array()) {
    for (const nlohmann::json& item : *list) {
      if (item == "sliding_attention" || item == "full_attention") {
        windowed.push_back(item == "sliding_attention");
      }
    }
  }
  if (!list->is_array() || list->size() != windowed.size() ||
      windowed.size() != static_cast<size_t>(num_layers)) {
    fields.Reject("layer_types", absl::StrCat("a list of num_hidden_layers, ", num_layers,
                                              ", times \"full_attention\" or "
                                              "\"sliding_attention\""));
    return std::nullopt;
  }
  return windowed;
}

// Whether each layer rotates, from a list of a 1 or a 0 for each.
std::optional<std::vector<bool>> ReadRotatingLayers(JsonFields& fields, int num_layers) {
  const nlohmann::json* list = fields.Get("no_rope_layers");
  if (list == nullptr || (list->is_array() && list->empty())) return std::nullopt;
  std::vector<bool> rotates;
  if (list->is_array()) {
    for (const nlohmann::json& item : *list) {
      if (item == 0 || item == 1) rotates.push_back(item == 1);
    }
  }
  if (!list->is_array() || list->size() != rotates.size() ||
      rotates.size() != static_cast<size_t>(num_layers)) {
    fields.Reject("no_rope_layers",
                  absl::StrCat("a list of num_hidden_layers, ", num_layers, ", times 1 or 0"));
    return std::nullopt;
  }
  return rotates;
}

std::optional<int> ReadWindow(JsonFields& fields, int otherwise) {
  if (fields.IsNull("sliding_window")) return std::nullopt;
  return fields.OptionalInt("sliding_window", 1, kMaxPositions).value_or(otherwise);
}

}  // namespace

LayerSpec MapSizes(JsonFields& fields, ModelConfig& config, int head_dim) {
  config.vocab_size = fields.Int("vocab_size", 1, kMaxVocabSize);
  config.hidden_size = fields.Int("hidden_size", 1, kMaxWidth);
  const int mlp_width = fields.Int("intermediate_size", 1, kMaxWidth);
  config.layers.resize(fields.Int("num_hidden_layers", 1, kMaxLayers));
  config.max_positions = fields.Int("max_position_embeddings", 1, kMaxPositions);
  MapHeads(fields, head_dim, config);
  LayerSpec layer = CheckSizes(fields, config);
  layer.mlp = DenseMlpSpec{.width = mlp_width};
  return layer;
}

LayerSpec CheckSizes(JsonFields& fields, const ModelConfig& config) {
  if (int64_t{config.num_heads} * config.head_dim > kMaxWidth) {
    fields.Fail(absl::StrCat("num_attention_heads ", config.num_heads, " times head_dim ",
                             config.head_dim, " is above ", kMaxWidth));
  }
  LayerSpec layer;
  layer.attention.scale = 1.0F / std::sqrt(static_cast<float>(std::max(config.head_dim, 1)));
  return layer;
}

void SetLayers(const LayerSpec& layer, ModelConfig& config) {
  config.layers.assign(config.layers.size(), layer);
}

int AddRope(ModelConfig& config) {
  config.ropes.emplace_back();
  return static_cast<int>(config.ropes.size()) - 1;
}

void MapRmsNorm(JsonFields& fields, std::initializer_list<const char*> names, double eps,
                ModelConfig& config) {
  config.norm = NormKind::kRmsNorm;
  config.norm_eps = ReadEps(fields, names, eps);
}

void MapLayerNorm(JsonFields& fields, std::initializer_list<const char*> names, double eps,
                  ModelConfig& config) {
  config.norm = NormKind::kLayerNorm;
  config.norm_bias = true;
  config.norm_eps = ReadEps(fields, names, eps);
}

Activation ReadActivation(JsonFields& fields, const std::string& name, Activation otherwise) {
  if (!fields.Has(name)) return otherwise;
  const std::string given = fields.String(name).value_or("");
  for (const ActivationName& known : kActivations) {
    if (given == known.name) return known.activation;
  }
  fields.Reject(name,
                absl::StrJoin(kActivations, ", ",
                              [](std::string* out, const ActivationName& known) {
                                absl::StrAppend(out, "\"", known.name, "\"");
                              }),
                absl::StatusCode::kUnimplemented);
  return otherwise;
}

void MapAttentionBias(JsonFields& fields, bool otherwise, LayerSpec& layer) {
  layer.attention.qkv_bias = layer.attention.o_bias = ReadBool(fields, "attention_bias", otherwise);
}

void MapWindow(JsonFields& fields, int otherwise, ModelConfig& config) {
  const std::optional<int> window = ReadWindow(fields, otherwise);
  for (LayerSpec& layer : config.layers) layer.attention.window = window.value_or(0);
}

void MapWindowOfSomeLayers(JsonFields& fields, int otherwise,
                           absl::FunctionRef<bool(int layer)> is_windowed, ModelConfig& config) {
  const bool has_window = ReadBool(fields, "use_sliding_window", false);
  const std::optional<int> window = ReadWindow(fields, otherwise);
  const auto layer_types = ReadLayerTypes(fields, config.num_layers());
  if (!has_window || !window.has_value()) return;
  for (int layer = 0; layer < config.num_layers(); ++layer) {
    const bool windowed = layer_types.has_value() ? (*layer_types)[layer] : is_windowed(layer);
    config.layers[layer].attention.window = windowed ? *window : 0;
  }
}

std::vector<bool> MapAlternatingWindows(JsonFields& fields, int otherwise, int pattern,
                                        ModelConfig& config) {
  for (const char* name : {"sliding_window_pattern", "_sliding_window_pattern"}) {
    pattern = fields.OptionalInt(name, 1, kMaxLayers).value_or(pattern);
  }
  const int window = ReadWindow(fields, otherwise).value_or(0);
  std::optional<std::vector<bool>> windowed = ReadLayerTypes(fields, config.num_layers());
  if (!windowed.has_value()) {
    windowed.emplace();
    for (int layer = 1; layer <= config.num_layers(); ++layer) {
      windowed->push_back(layer % pattern != 0);
    }
  }
  for (int layer = 0; layer < config.num_layers(); ++layer) {
    config.layers[layer].attention.window = (*windowed)[layer] ? window : 0;
  }
  return *std::move(windowed);
}

std::vector<bool> ReadWindowedLayers(JsonFields& fields,
                                     absl::FunctionRef<bool(int layer)> otherwise,
                                     const ModelConfig& config) {
  std::optional<std::vector<bool>> windowed = ReadLayerTypes(fields, config.num_layers());
  if (windowed.has_value()) return *std::move(windowed);
  windowed.emplace();
  for (int layer = 0; layer < config.num_layers(); ++layer) windowed->push_back(otherwise(layer));
  return *std::move(windowed);
}

void SetWindowToBothSides(int sides, AttentionSpec& attention) {
  attention.window = sides + 1;
  attention.ahead = sides;
}

float ReadSoftCap(JsonFields& fields, const char* name, float otherwise) {
  if (fields.IsNull(name)) return 0;
  return static_cast<float>(fields.NumberAbove(name, 0, 1e6).value_or(otherwise));
}

float ReadFactor(JsonFields& fields, const char* name, double otherwise) {
  return static_cast<float>(fields.NumberAbove(name, 0, 1e6).value_or(otherwise));
}

void MapLayersWithoutRope(JsonFields& fields, int interval, ModelConfig& config) {
  interval = fields.OptionalInt("no_rope_layer_interval", 1, kMaxLayers).value_or(interval);
  const auto rotates = ReadRotatingLayers(fields, config.num_layers());
  for (int layer = 0; layer < config.num_layers(); ++layer) {
    const bool rotated = rotates.has_value() ? (*rotates)[layer] : (layer + 1) % interval != 0;
    if (!rotated) config.layers[layer].attention.rope.reset();
  }
}

bool ReadBool(JsonFields& fields, const char* name, bool otherwise) {
  return fields.Bool(name).value_or(otherwise);
}

}  // namespace sluice
