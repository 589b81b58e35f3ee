#include <cmath>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
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

namespace {

// EmbeddingGemma: an encoder whose windows are half as wide, to both sides.
void SetBidirectional(ModelConfig& config) {
  for (LayerSpec& layer : config.layers) {
    AttentionSpec& attention = layer.attention;
    if (attention.window > 0) {
      SetWindowToBothSides(attention.window / 2, attention);
    } else {
      attention.ahead = kAllAhead;
    }
  }
  config.has_head = false;
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
  if (ReadBool(fields, "use_bidirectional_attention", false)) SetBidirectional(config);
}

// ---- Gemma 4: heads of two sizes, values that are normalised, experts beside an MLP ----

constinit const TensorNames kGemma4Names = [] {
  TensorNames names = kGemma2Names;
  names.router = "router.proj";
  names.router_scale = "router.scale";
  names.expert_factors = "router.per_expert_scale";
  names.expert_gate = "experts.$1.gate_proj";
  names.expert_up = "experts.$1.up_proj";
  names.expert_down = "experts.$1.down_proj";
  names.stacked_gate_up = "experts.gate_up_proj";
  names.stacked_down = "experts.down_proj";
  names.experts = ExpertStack::kRows;
  names.mixture_norm = "pre_feedforward_layernorm_2";
  names.beside_post_norm = "post_feedforward_layernorm_1";
  names.mixture_post_norm = "post_feedforward_layernorm_2";
  names.output_factor = "layer_scalar";
  names.side_embedding = "model.embed_tokens_per_layer";
  names.side_projection = "model.per_layer_model_projection";
  names.side_projection_norm = "model.per_layer_projection_norm";
  names.side_gate = "per_layer_input_gate";
  names.side_out = "per_layer_projection";
  names.side_norm = "post_per_layer_input_norm";
  return names;
}();

namespace {

constexpr int kMostGemmaExperts = 4096;

// Layers that see everything have heads of their own, and may take keys for values.
void MapGemma4Heads(JsonFields& fields, const std::vector<bool>& windowed, ModelConfig& config) {
  const int head_dim = fields.OptionalInt("global_head_dim", 1, kMaxHeadDim)
                           .value_or(fields.IsNull("global_head_dim") ? config.head_dim : 512);
  const bool keys_as_values = ReadBool(fields, "attention_k_eq_v", false);
  const int kv_heads =
      keys_as_values ? fields.OptionalInt("num_global_key_value_heads", 1, kMaxHeads).value_or(0)
                     : 0;
  if (kv_heads > 0 && config.num_heads % kv_heads != 0) {
    fields.Reject("num_global_key_value_heads",
                  absl::StrCat("a divisor of num_attention_heads, ", config.num_heads));
  }
  for (int index = 0; index < config.num_layers(); ++index) {
    if (windowed[index]) continue;
    AttentionSpec& attention = config.layers[index].attention;
    attention.head_dim = head_dim == config.head_dim ? 0 : head_dim;
    attention.num_kv_heads = kv_heads == config.num_kv_heads ? 0 : kv_heads;
    attention.keys_as_values = keys_as_values;
  }
}

// The last layers read the keys and values of the last one before them that sees as much.
void MapGemma4SharedKv(JsonFields& fields, const std::vector<bool>& windowed, ModelConfig& config) {
  const int layers = config.num_layers();
  const int shared = fields.OptionalInt("num_kv_shared_layers", 0, layers - 1).value_or(0);
  const bool doubles = ReadBool(fields, "use_double_wide_mlp", false);
  for (int index = layers - shared; index < layers; ++index) {
    LayerSpec& layer = config.layers[index];
    for (int source = 0; source < layers - shared; ++source) {
      if (windowed[source] == windowed[index]) layer.attention.kv_source = source;
    }
    if (layer.attention.kv_source < 0) {
      fields.Reject("num_kv_shared_layers", "a number that leaves a layer of each kind its own");
      return;
    }
    if (auto* mlp = std::get_if<DenseMlpSpec>(&layer.mlp); mlp != nullptr && doubles) {
      mlp->width *= 2;
    }
  }
}

// Embeddings for each layer, of as many tokens as the model has.
void MapGemma4Sides(JsonFields& fields, ModelConfig& config) {
  const int width =
      fields.IsNull("hidden_size_per_layer_input")
          ? 0
          : fields.OptionalInt("hidden_size_per_layer_input", 0, kMaxHeadDim).value_or(256);
  if (width == 0) return;
  const int vocab = fields.OptionalInt("vocab_size_per_layer_input", 1, kMaxVocabSize)
                        .value_or(config.vocab_size);
  if (vocab != config.vocab_size) {
    fields.Reject("vocab_size_per_layer_input", absl::StrCat("vocab_size, ", config.vocab_size));
  }
  if (int64_t{width} * config.num_layers() > kMaxWidth) {
    fields.Reject("hidden_size_per_layer_input",
                  absl::StrCat("at most ", kMaxWidth / config.num_layers(), ", of ",
                               config.num_layers(), " layers"));
  }
  for (LayerSpec& layer : config.layers) {
    layer.side = SideSpec{.width = width, .activation = DenseMlpOf(layer).activation};
  }
}

void MapGemma4Experts(JsonFields& fields, ModelConfig& config) {
  if (!ReadBool(fields, "enable_moe_block", false)) return;
  MixtureSpec mixture;
  mixture.router.num_experts = fields.Int("num_experts", 1, kMostGemmaExperts);
  mixture.router.num_chosen = fields.Int("top_k_experts", 1, mixture.router.num_experts);
  mixture.router.normalised = true;
  mixture.expert_factors = true;
  const int width = fields.Int("moe_intermediate_size", 1, kMaxWidth);
  for (LayerSpec& layer : config.layers) {
    mixture.beside = DenseMlpOf(layer);
    mixture.expert = *mixture.beside;
    mixture.expert.width = width;
    layer.mlp = mixture;
  }
}

}  // namespace

void MapGemma4(JsonFields& fields, ModelConfig& config) {
  LayerSpec layer = MapLlamaLike(fields, config, /*head_dim=*/256);
  DenseMlpOf(layer).activation = ReadActivation(fields, "hidden_activation", Activation::kGeluTanh);
  MapAttentionBias(fields, false, layer);
  layer.attention.scale = 1;
  layer.attention.qk_norm = true;
  layer.attention.value_norm = true;
  layer.norms.after_attention = layer.norms.after_mlp = true;
  layer.output_factor = true;
  SetLayers(layer, config);
  if (fields.String("use_bidirectional_attention").value_or("") == "all") {
    fields.Reject("use_bidirectional_attention", "null or \"vision\"",
                  absl::StatusCode::kUnimplemented);
  }
  MapGemma4Sides(fields, config);
  std::vector<bool> windowed = MapAlternatingWindows(fields, 512, 6, config);
  // The last layer sees everything, whatever the file says.
  windowed.back() = false;
  config.layers.back().attention.window = 0;
  const int local = AddRope(config);
  for (int index = 0; index < config.num_layers(); ++index) {
    if (windowed[index]) config.layers[index].attention.rope = local;
  }
  MapGemma4Heads(fields, windowed, config);
  MapGemma4SharedKv(fields, windowed, config);
  MapGemma4Experts(fields, config);
  config.tied_embeddings = ReadBool(fields, "tie_word_embeddings", true);
  config.embedding_scale = static_cast<float>(std::sqrt(double{1} * config.hidden_size));
  config.logit_softcap = ReadSoftCap(fields, "final_logit_softcapping", 0);
}

}  // namespace sluice
