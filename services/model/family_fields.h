// The parts of a config.json that many families share, each read by one function. Errors go to
// `fields`; what is read goes to `config`.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "services/model/json_fields.h"
#include "services/model/model_config.h"

namespace sluice {

// Sizes, heads and the number of layers under the names that most families have: hidden_size,
// num_attention_heads, ...; as many KV heads as heads and head_dim = hidden_size / heads (or
// `head_dim`, where it is not 0) unless the file has others. Returns what they say of a layer, for
// SetLayers: its scale and the width of its MLP.
LayerSpec MapSizes(JsonFields& fields, ModelConfig& config, int head_dim = 0);

// What follows from the sizes, for families that name theirs otherwise: head_dim must be filled in.
// Returns a layer with the scale 1 / sqrt(D).
LayerSpec CheckSizes(JsonFields& fields, const ModelConfig& config);

// Every layer is like this one; where some differ, the caller changes them afterwards. REQUIRES:
// MapSizes, or config.layers has the model's number of layers.
void SetLayers(const LayerSpec& layer, ModelConfig& config);

// One more rotation, for MapRope to fill in; returns its index.
int AddRope(ModelConfig& config);

// RMSNorm and LayerNorm (with biases); epsilon from the first of `names` that the file has.
void MapRmsNorm(JsonFields& fields, std::initializer_list<const char*> names, double eps,
                ModelConfig& config);
void MapLayerNorm(JsonFields& fields, std::initializer_list<const char*> names, double eps,
                  ModelConfig& config);

// The activation that field `name` names; UNIMPLEMENTED where it is unknown.
Activation ReadActivation(JsonFields& fields, const std::string& name, Activation otherwise);

// Biases on all four projections of attention, where `attention_bias` says so.
void MapAttentionBias(JsonFields& fields, bool otherwise, LayerSpec& layer);

// Layers see `otherwise` positions, 0 for all, unless the file's `sliding_window` says how many,
// null for all. REQUIRES: SetLayers.
void MapWindow(JsonFields& fields, int otherwise, ModelConfig& config);
// The same where use_sliding_window says whether, and layer_types which; `is_windowed` where the
// file has none. `otherwise` as above.
void MapWindowOfSomeLayers(JsonFields& fields, int otherwise,
                           absl::FunctionRef<bool(int layer)> is_windowed, ModelConfig& config);

// Which layers have a window, and gives them the file's `sliding_window`, `otherwise` where it has
// none, null for all positions: those that layer_types names or, without it, all but every
// `sliding_window_pattern`th one, `pattern` by default. REQUIRES: SetLayers.
std::vector<bool> MapAlternatingWindows(JsonFields& fields, int otherwise, int pattern,
                                        ModelConfig& config);

// Which layers have a window: those that layer_types names or, without it, those for which
// `otherwise` holds. REQUIRES: config.layers has the model's number of layers.
std::vector<bool> ReadWindowedLayers(JsonFields& fields,
                                     absl::FunctionRef<bool(int layer)> otherwise,
                                     const ModelConfig& config);

// Queries of an encoder see so many positions to either side and their own, instead of all.
void SetWindowToBothSides(int sides, AttentionSpec& attention);

// The cap in field `name`: 0, none, where it is null, and `otherwise` where it is absent.
float ReadSoftCap(JsonFields& fields, const char* name, float otherwise);

// A factor above 0, `otherwise` where the file has none.
float ReadFactor(JsonFields& fields, const char* name, double otherwise);

// Removes the rotation of the layers that `no_rope_layers` has a 0 for or, where the file has no
// such list, of every `no_rope_layer_interval`th one, `interval` by default. REQUIRES: SetLayers.
void MapLayersWithoutRope(JsonFields& fields, int interval, ModelConfig& config);

bool ReadBool(JsonFields& fields, const char* name, bool otherwise);

// Upper limits of sizes: far above any model, low enough that products of two fit 63 bits and a
// typing error shows.
inline constexpr int kMaxVocabSize = 1 << 24;
inline constexpr int kMaxWidth = 1 << 22;
inline constexpr int kMaxLayers = 4096;
inline constexpr int kMaxHeads = 4096;
inline constexpr int kMaxHeadDim = 4096;
inline constexpr int kMaxPositions = 1 << 28;

}  // namespace sluice
