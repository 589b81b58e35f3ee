#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/model/families.h"
#include "services/model/family_fields.h"

namespace sluice {
namespace {

constexpr TensorNames kNumberedNames = [] {
  TensorNames names = kLlamaNames;
  names.router = "mlp.gate";
  names.expert_gate = "mlp.experts.$1.gate_proj";
  names.expert_up = "mlp.experts.$1.up_proj";
  names.expert_down = "mlp.experts.$1.down_proj";
  return names;
}();

constexpr int kMaxExperts = 4096;

// Attention, norms and a dense MLP as Llama has them; the layer is for SetLayers.
LayerSpec MapRotaryLayer(JsonFields& fields, double eps, ModelConfig& config, int head_dim = 0) {
  LayerSpec layer = MapSizes(fields, config, head_dim);
  layer.attention.rope = AddRope(config);
  DenseMlpOf(layer).activation = ReadActivation(fields, "hidden_act", Activation::kSilu);
  MapRmsNorm(fields, {"rms_norm_eps"}, eps, config);
  config.tied_embeddings = ReadBool(fields, "tie_word_embeddings", false);
  return layer;
}

// A mixture of as many experts as `count` says, `otherwise` where the file does not, of which
// `chosen` are chosen; each is `width` columns of the dense MLP.
MixtureSpec MapExperts(JsonFields& fields, const char* count, int otherwise, const char* chosen,
                       int otherwise_chosen, const DenseMlpSpec& dense, int width) {
  MixtureSpec mixture;
  RouterSpec& router = mixture.router;
  router.num_experts = fields.OptionalInt(count, 1, kMaxExperts).value_or(otherwise);
  router.num_chosen = fields.OptionalInt(chosen, 1, kMaxExperts).value_or(otherwise_chosen);
  if (router.num_chosen > router.num_experts) {
    fields.Reject(chosen, absl::StrCat("1 to ", count, ", ", router.num_experts));
  }
  mixture.expert = dense;
  mixture.expert.width = width;
  return mixture;
}

int ReadWidth(JsonFields& fields, const char* name) { return fields.Int(name, 1, kMaxWidth); }

// The layers that `mlp_only_layers` names.
std::vector<bool> ReadDenseLayers(JsonFields& fields, int num_layers) {
  std::vector<bool> dense(num_layers);
  const nlohmann::json* const list = fields.Get("mlp_only_layers");
  if (list == nullptr) return dense;
  const auto is_layer = [&](const nlohmann::json& item) {
    return item.is_number_integer() && item.get<int64_t>() >= 0 && item.get<int64_t>() < num_layers;
  };
  if (!list->is_array() || !std::all_of(list->begin(), list->end(), is_layer)) {
    fields.Reject("mlp_only_layers",
                  absl::StrCat("a list of layers, each from 0 to ", num_layers - 1));
    return dense;
  }
  for (const nlohmann::json& item : *list) dense[item.get<size_t>()] = true;
  return dense;
}

MixtureSpec MapQwenExperts(JsonFields& fields, int otherwise, int otherwise_chosen,
                           const LayerSpec& layer) {
  MixtureSpec mixture =
      MapExperts(fields, "num_experts", otherwise, "num_experts_per_tok", otherwise_chosen,
                 DenseMlpOf(layer), ReadWidth(fields, "moe_intermediate_size"));
  mixture.router.normalised = ReadBool(fields, "norm_topk_prob", false);
  return mixture;
}

// From layer max_window_layers on, unless the file names the layers.
void MapQwenMoeWindow(JsonFields& fields, ModelConfig& config) {
  const int first = fields.OptionalInt("max_window_layers", 0, kMaxLayers).value_or(28);
  MapWindowOfSomeLayers(
      fields, 4096, [first](int layer) { return layer >= first; }, config);
}

}  // namespace

void SetQwenMixtures(JsonFields& fields, const MixtureSpec& mixture, ModelConfig& config) {
  const int step = fields.OptionalInt("decoder_sparse_step", 1, kMaxLayers).value_or(1);
  const std::vector<bool> dense = ReadDenseLayers(fields, config.num_layers());
  for (int layer = 0; layer < config.num_layers(); ++layer) {
    if ((layer + 1) % step == 0 && !dense[layer]) config.layers[layer].mlp = mixture;
  }
}

// ---- Mixtral ----

constinit const TensorNames kMixtralNames = [] {
  TensorNames names = kLlamaNames;
  names.router = "block_sparse_moe.gate";
  names.expert_gate = "block_sparse_moe.experts.$1.w1";
  names.expert_up = "block_sparse_moe.experts.$1.w3";
  names.expert_down = "block_sparse_moe.experts.$1.w2";
  return names;
}();

void MapMixtral(JsonFields& fields, ModelConfig& config) {
  LayerSpec layer = MapRotaryLayer(fields, 1e-5, config);
  config.ropes.front().theta = 1e6;
  const DenseMlpSpec& dense = DenseMlpOf(layer);
  MixtureSpec mixture =
      MapExperts(fields, "num_local_experts", 8, "num_experts_per_tok", 2, dense, dense.width);
  mixture.router.normalised = true;
  layer.mlp = mixture;
  SetLayers(layer, config);
  MapWindow(fields, 0, config);
}

// ---- Qwen 2 and 3 ----

constinit const TensorNames kQwenMoeNames = [] {
  TensorNames names = kNumberedNames;
  names.shared_gate = "mlp.shared_expert.gate_proj";
  names.shared_up = "mlp.shared_expert.up_proj";
  names.shared_down = "mlp.shared_expert.down_proj";
  names.shared_score = "mlp.shared_expert_gate";
  return names;
}();

void MapQwen2Moe(JsonFields& fields, ModelConfig& config) {
  LayerSpec layer = MapRotaryLayer(fields, 1e-6, config);
  layer.attention.qkv_bias = ReadBool(fields, "qkv_bias", true);
  MixtureSpec mixture = MapQwenExperts(fields, 60, 4, layer);
  mixture.shared_width = ReadWidth(fields, "shared_expert_intermediate_size");
  mixture.shared_score = true;
  SetLayers(layer, config);
  SetQwenMixtures(fields, mixture, config);
  MapQwenMoeWindow(fields, config);
}

void MapQwen3Moe(JsonFields& fields, ModelConfig& config) {
  LayerSpec layer = MapRotaryLayer(fields, 1e-6, config);
  layer.attention.qk_norm = true;
  MapAttentionBias(fields, false, layer);
  const MixtureSpec mixture = MapQwenExperts(fields, 128, 8, layer);
  SetLayers(layer, config);
  SetQwenMixtures(fields, mixture, config);
  MapQwenMoeWindow(fields, config);
}

// ---- DeepSeek's mixtures, and GLM-4.5, which has them ----

namespace {

constexpr TensorNames kSharedExpertsNames = [] {
  TensorNames names = kNumberedNames;
  names.choice_bias = "mlp.gate.e_score_correction_bias";
  names.shared_gate = "mlp.shared_experts.gate_proj";
  names.shared_up = "mlp.shared_experts.up_proj";
  names.shared_down = "mlp.shared_experts.down_proj";
  return names;
}();

}  // namespace

constinit const TensorNames kDeepseekMoeNames = kSharedExpertsNames;

namespace {

// Groups of experts, of which some take part in the choice. Those of V2 count by their best expert,
// later ones by their two best.
void MapGroups(JsonFields& fields, bool is_second, bool is_third, RouterSpec& router) {
  const std::string method =
      fields.String("topk_method").value_or(is_second ? "greedy" : "noaux_tc");
  const bool known =
      is_second ? method == "greedy" || method == "group_limited_greedy" : method == "noaux_tc";
  if (!known) {
    fields.Reject("topk_method",
                  is_second ? "\"greedy\", \"group_limited_greedy\"" : "\"noaux_tc\"",
                  absl::StatusCode::kUnimplemented);
  }
  const auto count = [&](const char* name, int of_third) {
    const int otherwise = is_third && !fields.IsNull(name) ? of_third : 1;
    return fields.OptionalInt(name, 1, kMaxExperts).value_or(otherwise);
  };
  const int groups = count("n_group", 8);
  const int kept = count("topk_group", 4);
  if (method == "greedy") return;
  if (router.num_experts % groups != 0) {
    fields.Reject("n_group", absl::StrCat("a divisor of n_routed_experts, ", router.num_experts));
    return;
  }
  const int of_group = router.num_experts / groups;
  if (kept > groups || kept * of_group < router.num_chosen) {
    fields.Reject("topk_group",
                  absl::StrCat("at most n_group, ", groups,
                               ", and enough for num_experts_per_tok, ", router.num_chosen));
    return;
  }
  router.num_groups = groups;
  router.num_kept_groups = kept;
  router.num_best_of_group = is_second ? 1 : std::min(2, of_group);
}

void MapScores(JsonFields& fields, bool is_second, RouterSpec& router) {
  const std::string expected = is_second ? "softmax" : "sigmoid";
  if (fields.String("scoring_func").value_or(expected) != expected) {
    fields.Reject("scoring_func", absl::StrCat("\"", expected, "\""),
                  absl::StatusCode::kUnimplemented);
  }
  router.scores = is_second ? RouterScores::kSoftmax : RouterScores::kSigmoid;
  router.choice_bias = !is_second;
  router.normalised = ReadBool(fields, "norm_topk_prob", !is_second);
  router.least_sum = is_second ? 0 : 1e-20F;
  if (is_second && router.normalised) {
    fields.Reject("norm_topk_prob", "false: programs disagree on what true means for this family",
                  absl::StatusCode::kUnimplemented);
  }
}

}  // namespace

void MapDeepseekMixtures(JsonFields& fields, ModelConfig& config) {
  const bool is_second = config.model_type == "deepseek_v2";
  const bool is_third = config.model_type == "deepseek_v3";
  const DenseMlpSpec dense = DenseMlpOf(config.layers.front());
  const int width = ReadWidth(fields, "moe_intermediate_size");
  MixtureSpec mixture = MapExperts(fields, "n_routed_experts", is_third ? 256 : 128,
                                   "num_experts_per_tok", 8, dense, width);
  MapScores(fields, is_second, mixture.router);
  MapGroups(fields, is_second, is_third, mixture.router);
  mixture.router.factor = static_cast<float>(
      fields.NumberAbove("routed_scaling_factor", 0, 1e6).value_or(is_third ? 2.5 : 1));
  const int shared =
      fields.IsNull("n_shared_experts")
          ? 0
          : fields.OptionalInt("n_shared_experts", 0, kMaxExperts).value_or(is_second ? 2 : 1);
  mixture.shared_width = std::min(shared * int64_t{width}, int64_t{kMaxWidth});
  const int first = fields.OptionalInt("first_k_dense_replace", 0, kMaxLayers)
                        .value_or(is_second  ? 0
                                  : is_third ? 3
                                             : 1);
  const int step = fields.OptionalInt("moe_layer_freq", 1, kMaxLayers).value_or(1);
  for (int layer = first; layer < config.num_layers(); ++layer) {
    if (layer % step == 0) config.layers[layer].mlp = mixture;
  }
}

void MapGlm4Moe(JsonFields& fields, ModelConfig& config) {
  LayerSpec layer = MapRotaryLayer(fields, 1e-5, config);
  layer.attention.qkv_bias = ReadBool(fields, "attention_bias", false);
  layer.attention.qk_norm = ReadBool(fields, "use_qk_norm", false);
  SetLayers(layer, config);
  MapDeepseekMixtures(fields, config);
}

// ---- ERNIE 4.5 ----

constinit const TensorNames kErnieMoeNames = [] {
  TensorNames names = kSharedExpertsNames;
  names.choice_bias = "mlp.moe_statics.e_score_correction_bias";
  names.choice_bias_is_row = true;
  return names;
}();

void MapErnieMoe(JsonFields& fields, ModelConfig& config) {
  LayerSpec layer = MapRotaryLayer(fields, 1e-5, config);
  RopeConfig& rope = config.ropes[*layer.attention.rope];
  rope.interleaved = true;
  rope.theta = 500000;
  config.tied_embeddings = ReadBool(fields, "tie_word_embeddings", true);
  if (ReadBool(fields, "use_bias", false)) {
    fields.Reject("use_bias", "false", absl::StatusCode::kUnimplemented);
  }
  const int width = ReadWidth(fields, "moe_intermediate_size");
  MixtureSpec mixture =
      MapExperts(fields, "moe_num_experts", 64, "moe_k", 6, DenseMlpOf(layer), width);
  mixture.router.choice_bias = true;
  mixture.router.normalised = true;
  mixture.router.least_sum =
      static_cast<float>(fields.NumberAtLeast("moe_norm_min", 0, 1).value_or(1e-12));
  const int shared = fields.OptionalInt("moe_num_shared_experts", 0, kMaxExperts).value_or(2);
  mixture.shared_width = std::min(shared * int64_t{width}, int64_t{kMaxWidth});
  SetLayers(layer, config);
  const int step = fields.OptionalInt("moe_layer_interval", 1, kMaxLayers).value_or(1);
  const int first = fields.OptionalInt("moe_layer_start_index", 0, kMaxLayers).value_or(1);
  const int last = fields.OptionalInt("moe_layer_end_index", -1, kMaxLayers).value_or(-1);
  for (int index = first; index < config.num_layers(); ++index) {
    const bool within = last < 0 || index <= last;
    if (within && (index + 1) % step == 0) config.layers[index].mlp = mixture;
  }
}

// ---- gpt-oss ----

constinit const TensorNames kGptOssNames = [] {
  TensorNames names = kNumberedNames;
  names.router = "mlp.router";
  names.stacked_gate_up = "mlp.experts.gate_up_proj";
  names.stacked_down = "mlp.experts.down_proj";
  names.experts = ExpertStack::kAlternating;
  names.sinks = "self_attn.sinks";
  return names;
}();

void MapGptOss(JsonFields& fields, ModelConfig& config) {
  LayerSpec layer = MapRotaryLayer(fields, 1e-5, config, /*head_dim=*/64);
  config.ropes[*layer.attention.rope].theta = 150000;
  layer.attention.sinks = true;
  MapAttentionBias(fields, true, layer);
  DenseMlpSpec dense = DenseMlpOf(layer);
  dense.bias = true;
  dense.activation = Activation::kClampedSwiGlu;
  dense.clamp.alpha =
      static_cast<float>(fields.NumberAbove("swiglu_alpha", 0, 1e3).value_or(1.702));
  dense.clamp.limit = static_cast<float>(fields.NumberAbove("swiglu_limit", 0, 1e6).value_or(7));
  MixtureSpec mixture =
      MapExperts(fields, "num_local_experts", 128, "num_experts_per_tok", 4, dense, dense.width);
  mixture.router.bias = true;
  mixture.router.normalised = true;
  layer.mlp = mixture;
  SetLayers(layer, config);
  MapAlternatingWindows(fields, 128, 2, config);
}

// ---- OLMoE ----

void MapOlmoe(JsonFields& fields, ModelConfig& config) {
  LayerSpec layer = MapRotaryLayer(fields, 1e-5, config);
  layer.attention.qk_norm = true;
  layer.attention.qk_norm_kind = QkNormKind::kWholeRms;
  layer.attention.clip = static_cast<float>(fields.NumberAbove("clip_qkv", 0, 1e6).value_or(0));
  MapAttentionBias(fields, false, layer);
  const DenseMlpSpec& dense = DenseMlpOf(layer);
  MixtureSpec mixture =
      MapExperts(fields, "num_experts", 64, "num_experts_per_tok", 8, dense, dense.width);
  mixture.router.normalised = ReadBool(fields, "norm_topk_prob", false);
  layer.mlp = mixture;
  SetLayers(layer, config);
}

// ---- Llama 4 ----

constinit const TensorNames kLlama4Names = [] {
  TensorNames names = kLlamaNames;
  names.gate = "feed_forward.gate_proj";
  names.up = "feed_forward.up_proj";
  names.down = "feed_forward.down_proj";
  names.router = "feed_forward.router";
  names.expert_gate = "feed_forward.experts.$1.gate_proj";
  names.expert_up = "feed_forward.experts.$1.up_proj";
  names.expert_down = "feed_forward.experts.$1.down_proj";
  names.shared_gate = "feed_forward.shared_expert.gate_proj";
  names.shared_up = "feed_forward.shared_expert.up_proj";
  names.shared_down = "feed_forward.shared_expert.down_proj";
  names.stacked_gate_up = "feed_forward.experts.gate_up_proj";
  names.stacked_down = "feed_forward.experts.down_proj";
  names.experts = ExpertStack::kHalves;
  return names;
}();

namespace {

// Layers without rotation see everything, with queries that grow; the others see their own chunk.
void MapLlama4Attention(JsonFields& fields, ModelConfig& config) {
  const bool norms = ReadBool(fields, "use_qk_norm", true);
  // Published files have a number there.
  const nlohmann::json* const tuning = fields.Get("attn_temperature_tuning");
  const bool grows = tuning != nullptr && tuning->is_number()
                         ? tuning->get<double>() != 0
                         : ReadBool(fields, "attn_temperature_tuning", true);
  const QueryGrowth growth{
      .beta = ReadFactor(fields, "attn_scale", 0.1),
      .unit = fields.OptionalInt("floor_scale", 1, kMaxPositions).value_or(8192),
      .offset = 1};
  const int chunk =
      fields.IsNull("attention_chunk_size")
          ? 0
          : fields.OptionalInt("attention_chunk_size", 1, kMaxPositions).value_or(8192);
  MapLayersWithoutRope(fields, 4, config);
  for (LayerSpec& layer : config.layers) {
    AttentionSpec& attention = layer.attention;
    attention.qk_norm = norms && attention.rope.has_value();
    attention.qk_norm_kind = QkNormKind::kPlainHeadRms;
    attention.chunk = attention.rope.has_value() ? chunk : 0;
    if (grows && !attention.rope.has_value()) attention.growth = growth;
  }
}

// The layers with mixtures, as `moe_layers` lists them or every `interleave_moe_layer_step`th one.
std::vector<bool> ReadMixtureLayers(JsonFields& fields, int num_layers) {
  const int step = fields.OptionalInt("interleave_moe_layer_step", 1, kMaxLayers).value_or(1);
  std::vector<bool> mixed(num_layers);
  for (int layer = step - 1; layer < num_layers; layer += step) mixed[layer] = true;
  const nlohmann::json* const list = fields.Get("moe_layers");
  if (list == nullptr) return mixed;
  const auto is_layer = [&](const nlohmann::json& item) {
    return item.is_number_integer() && item.get<int64_t>() >= 0 && item.get<int64_t>() < num_layers;
  };
  if (!list->is_array() || !std::all_of(list->begin(), list->end(), is_layer)) {
    fields.Reject("moe_layers", absl::StrCat("a list of layers, each from 0 to ", num_layers - 1));
    return mixed;
  }
  mixed.assign(num_layers, false);
  for (const nlohmann::json& item : *list) mixed[item.get<size_t>()] = true;
  return mixed;
}

}  // namespace

void MapLlama4(JsonFields& fields, ModelConfig& config) {
  LayerSpec layer = MapRotaryLayer(fields, 1e-5, config, /*head_dim=*/128);
  RopeConfig& rope = config.ropes[*layer.attention.rope];
  rope.interleaved = true;
  rope.theta = 500000;
  MapAttentionBias(fields, false, layer);
  DenseMlpSpec& dense = DenseMlpOf(layer);
  MixtureSpec mixture =
      MapExperts(fields, "num_local_experts", 16, "num_experts_per_tok", 1, dense, dense.width);
  mixture.router.scores = RouterScores::kSigmoid;
  mixture.weighs_inputs = true;
  mixture.shared_width = dense.width;
  dense.width = fields.OptionalInt("intermediate_size_mlp", 1, kMaxWidth).value_or(dense.width);
  SetLayers(layer, config);
  const std::vector<bool> mixed = ReadMixtureLayers(fields, config.num_layers());
  for (int index = 0; index < config.num_layers(); ++index) {
    if (mixed[index]) config.layers[index].mlp = mixture;
  }
  MapLlama4Attention(fields, config);
}

// ---- Granite's mixtures ----

constinit const TensorNames kGraniteMoeNames = [] {
  TensorNames names = kLlamaNames;
  names.router = "block_sparse_moe.router.layer";
  names.expert_gate = "block_sparse_moe.experts.$1.gate_proj";
  names.expert_up = "block_sparse_moe.experts.$1.up_proj";
  names.expert_down = "block_sparse_moe.experts.$1.down_proj";
  names.stacked_gate_up = "block_sparse_moe.input_linear.weight";
  names.stacked_down = "block_sparse_moe.output_linear.weight";
  names.experts = ExpertStack::kRows;
  names.shared_gate = names.shared_up = "shared_mlp.input_linear";
  names.shared_down = "shared_mlp.output_linear";
  names.gate_up = Fusion::kStacked;
  return names;
}();

void MapGraniteMoe(JsonFields& fields, ModelConfig& config) {
  LayerSpec layer = MapRotaryLayer(fields, 1e-6, config);
  MapAttentionBias(fields, false, layer);
  layer.attention.scale = ReadFactor(fields, "attention_multiplier", 1);
  layer.residual_multiplier = ReadFactor(fields, "residual_multiplier", 1);
  const DenseMlpSpec& dense = DenseMlpOf(layer);
  // Granite 4 has models without.
  const bool is_hybrid = config.model_type == "granitemoehybrid";
  const bool has_none = is_hybrid && fields.Get("num_local_experts") != nullptr &&
                        *fields.Get("num_local_experts") == 0;
  MixtureSpec mixture = has_none ? MixtureSpec{.expert = dense}
                                 : MapExperts(fields, "num_local_experts", 8, "num_experts_per_tok",
                                              2, dense, dense.width);
  mixture.router.normalised = true;
  if (config.model_type == "granitemoeshared") {
    mixture.shared_width = fields.OptionalInt("shared_intermediate_size", 0, kMaxWidth).value_or(0);
  }
  layer.mlp = mixture;
  SetLayers(layer, config);
  config.embedding_scale = ReadFactor(fields, "embedding_multiplier", 1);
  config.logit_scale = 1 / ReadFactor(fields, "logits_scaling", 1);
}

}  // namespace sluice
