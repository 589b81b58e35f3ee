#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "services/model/families.h"
#include "services/model/family_fields.h"

namespace sluice {
namespace {

template <typename Value, size_t kCount>
Value ReadChoice(JsonFields& fields, const char* name,
                 const std::pair<const char*, Value> (&choices)[kCount], Value otherwise) {
  if (!fields.Has(name)) return otherwise;
  const std::string given = fields.String(name).value_or("");
  for (const auto& [choice, value] : choices) {
    if (given == choice) return value;
  }
  fields.Reject(name, absl::StrJoin(choices, ", ", [](std::string* out, const auto& choice) {
                  absl::StrAppend(out, "\"", choice.first, "\"");
                }));
  return otherwise;
}

// What the field `position` names.
struct NamedPositions {
  PositionKind added = PositionKind::kNone;
  bool rotary = false;
  bool interleaved = false;
};

constexpr std::pair<const char*, NamedPositions> kPositionNames[] = {
    {"rope_interleaved", {.rotary = true, .interleaved = true}},
    {"rope_half", {.rotary = true}},
    {"learned", {.added = PositionKind::kLearned}},
    {"sinusoidal", {.added = PositionKind::kSinusoidal}},
    {"none", {}}};

void MapPositionsByName(JsonFields& fields, ModelConfig& config, AttentionSpec& attention) {
  const auto positions =
      ReadChoice(fields, "position", kPositionNames, NamedPositions{.rotary = true});
  config.position = positions.added;
  if (!positions.rotary) return;
  attention.rope = AddRope(config);
  config.ropes[*attention.rope].interleaved = positions.interleaved;
}

}  // namespace

void MapSluiceDecoder(JsonFields& fields, ModelConfig& config) {
  constexpr std::pair<const char*, NormKind> kNorms[] = {{"rmsnorm", NormKind::kRmsNorm},
                                                         {"layernorm", NormKind::kLayerNorm}};
  constexpr std::pair<const char*, Activation> kMlps[] = {
      {"relu", Activation::kRelu}, {"gelu", Activation::kGelu}, {"swiglu", Activation::kSilu}};
  LayerSpec layer = MapSizes(fields, config);
  MapRmsNorm(fields, {"norm_eps", "rms_norm_eps", "layer_norm_eps"}, 1e-5, config);
  MapPositionsByName(fields, config, layer.attention);
  config.norm = ReadChoice(fields, "norm", kNorms, NormKind::kRmsNorm);
  DenseMlpSpec& mlp = DenseMlpOf(layer);
  mlp.activation = ReadChoice(fields, "mlp", kMlps, Activation::kSilu);
  mlp.gated = mlp.activation == Activation::kSilu;
  mlp.bias = ReadBool(fields, "with_bias", false);
  layer.attention.qkv_bias = layer.attention.o_bias = mlp.bias;
  config.norm_bias = mlp.bias && config.norm == NormKind::kLayerNorm;
  config.tied_embeddings = ReadBool(fields, "tie_word_embeddings", false);
  SetLayers(layer, config);
}

}  // namespace sluice
