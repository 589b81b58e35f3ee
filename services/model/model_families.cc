#include "services/model/model_families.h"

#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "services/model/family_fields.h"
#include "services/model/family_latent.h"

namespace sluice {
namespace {

// ---- Llama, and families whose files are called alike ----

constexpr TensorNames kLlamaNames = {
    .embedding = "model.embed_tokens",
    .positions = "model.embed_positions",
    .final_norm = "model.norm",
    .head = "lm_head",
    .layer = "model.layers.$0.",
    .attention_norm = "input_layernorm",
    .q = "self_attn.q_proj",
    .k = "self_attn.k_proj",
    .v = "self_attn.v_proj",
    .q_norm = "self_attn.q_norm",
    .k_norm = "self_attn.k_norm",
    .o = "self_attn.o_proj",
    .mlp_norm = "post_attention_layernorm",
    .gate = "mlp.gate_proj",
    .up = "mlp.up_proj",
    .down = "mlp.down_proj",
};

// Everything but biases and windows; the layer is for SetLayers. `head_dim` as in MapSizes.
LayerSpec MapLlamaLike(JsonFields& fields, ModelConfig& config, int head_dim = 0) {
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

// From layer max_window_layers on, unless the file names the layers.
void MapQwenWindow(JsonFields& fields, ModelConfig& config) {
  const int first = fields.OptionalInt("max_window_layers", 0, kMaxLayers).value_or(28);
  MapWindowOfSomeLayers(
      fields, 4096, [first](int layer) { return layer >= first; }, config);
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

// ---- Phi-3: Llama with fused projections ----

constexpr TensorNames kPhi3Names = [] {
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

// ---- GPT-2 ----

constexpr TensorNames kGpt2Names = {
    .embedding = "transformer.wte",
    .positions = "transformer.wpe",
    .final_norm = "transformer.ln_f",
    .head = "lm_head",
    .layer = "transformer.h.$0.",
    .attention_norm = "ln_1",
    .q = "attn.c_attn",
    .k = "attn.c_attn",
    .v = "attn.c_attn",
    .o = "attn.c_proj",
    .mlp_norm = "ln_2",
    .up = "mlp.c_fc",
    .down = "mlp.c_proj",
    .qkv = Fusion::kStacked,
    .transposed = true,
    .optional_prefix = "transformer.",
};

LayerSpec MapGpt2Sizes(JsonFields& fields, ModelConfig& config) {
  config.vocab_size = fields.Int("vocab_size", 1, kMaxVocabSize);
  config.hidden_size = fields.Int("n_embd", 1, kMaxWidth / 4);
  const std::optional<int> mlp_width = fields.OptionalInt("n_inner", 1, kMaxWidth);
  config.layers.resize(fields.Int("n_layer", 1, kMaxLayers));
  config.max_positions = fields.Int("n_positions", 1, kMaxPositions);
  config.num_heads = config.num_kv_heads = fields.Int("n_head", 1, kMaxHeads);
  if (config.hidden_size % config.num_heads != 0) {
    fields.Reject("n_embd", absl::StrCat("a multiple of n_head, ", config.num_heads));
  }
  config.head_dim = config.hidden_size / config.num_heads;
  LayerSpec layer = CheckSizes(fields, config);
  layer.mlp = DenseMlpSpec{.width = mlp_width.value_or(4 * config.hidden_size)};
  return layer;
}

// Scores are divided by the layer's number, counted from 1.
void ScaleByLayer(ModelConfig& config) {
  for (int index = 0; index < config.num_layers(); ++index) {
    config.layers[index].attention.scale /= static_cast<float>(index + 1);
  }
}

void MapGpt2(JsonFields& fields, ModelConfig& config) {
  LayerSpec layer = MapGpt2Sizes(fields, config);
  if (!ReadBool(fields, "scale_attn_weights", true)) layer.attention.scale = 1;
  layer.attention.qkv_bias = layer.attention.o_bias = true;
  DenseMlpSpec& mlp = DenseMlpOf(layer);
  mlp.activation = ReadActivation(fields, "activation_function", Activation::kGeluTanh);
  mlp.gated = false;
  mlp.bias = true;
  SetLayers(layer, config);
  if (ReadBool(fields, "scale_attn_by_inverse_layer_idx", false)) ScaleByLayer(config);
  MapLayerNorm(fields, {"layer_norm_epsilon"}, 1e-5, config);
  config.position = PositionKind::kLearned;
  config.tied_embeddings = ReadBool(fields, "tie_word_embeddings", true);
}

// ---- GPT-NeoX ----

constexpr TensorNames kGptNeoxNames = {
    .embedding = "gpt_neox.embed_in",
    .final_norm = "gpt_neox.final_layer_norm",
    .head = "embed_out",
    .layer = "gpt_neox.layers.$0.",
    .attention_norm = "input_layernorm",
    .q = "attention.query_key_value",
    .k = "attention.query_key_value",
    .v = "attention.query_key_value",
    .o = "attention.dense",
    .mlp_norm = "post_attention_layernorm",
    .up = "mlp.dense_h_to_4h",
    .down = "mlp.dense_4h_to_h",
    .qkv = Fusion::kByHead,
};

void MapGptNeox(JsonFields& fields, ModelConfig& config) {
  LayerSpec layer = MapSizes(fields, config);
  if (config.num_kv_heads != config.num_heads) {
    fields.Reject("num_key_value_heads", "none: every head has keys and values of its own");
  }
  layer.attention.rope = AddRope(config);
  MapAttentionBias(fields, true, layer);
  DenseMlpSpec& mlp = DenseMlpOf(layer);
  mlp.activation = ReadActivation(fields, "hidden_act", Activation::kGelu);
  mlp.gated = false;
  mlp.bias = true;
  layer.parallel_residual = ReadBool(fields, "use_parallel_residual", true);
  SetLayers(layer, config);
  MapLayerNorm(fields, {"layer_norm_eps"}, 1e-5, config);
  config.tied_embeddings = ReadBool(fields, "tie_word_embeddings", false);
}

// ---- The textbook family: every switch by name, tensors called as Llama's ----

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

constexpr ModelFamily kFamilies[] = {
    {"llama", MapLlama, &kLlamaNames, {}},
    {"mistral", MapMistral, &kLlamaNames, {}},
    {"qwen2", MapQwen2, &kLlamaNames, {}},
    {"qwen3", MapQwen3, &kLlamaNames, {}},
    {"smollm3", MapSmolLm3, &kLlamaNames, {}},
    {"gemma", MapGemma, &kLlamaNames, {}},
    {"phi3", MapPhi3, &kPhi3Names, {.original_positions = 4096, .every_list_long = true}},
    {"gpt2", MapGpt2, &kGpt2Names, {}},
    {"gpt_neox", MapGptNeox, &kGptNeoxNames, {.turned_fraction = 0.25}},
    {"sluice_decoder", MapSluiceDecoder, &kLlamaNames, {}},
    {"deepseek_v2", MapDeepSeekV2, &kDeepSeekNames, {}},
    {"deepseek_v3", MapDeepSeekV3, &kDeepSeekNames, {}},
    {"kimi_k2", MapDeepSeekV3, &kDeepSeekNames, {}},
    {"glm4_moe_lite", MapGlm4MoeLite, &kDeepSeekNames, {}},
};

}  // namespace

const ModelFamily* FindModelFamily(const std::string& model_type) {
  for (const ModelFamily& family : kFamilies) {
    if (family.model_type == model_type) return &family;
  }
  return nullptr;
}

std::string KnownModelTypes() {
  return absl::StrJoin(kFamilies, ", ", [](std::string* out, const ModelFamily& family) {
    absl::StrAppend(out, "\"", family.model_type, "\"");
  });
}

}  // namespace sluice
