#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/model/families.h"
#include "services/model/family_fields.h"

namespace sluice {
namespace {

constexpr int kMaxStateHeads = 4096;
constexpr int kMaxStateDim = 4096;
constexpr int kMaxConvWidth = 16;
constexpr int kMostExperts = 4096;

std::string LayerTypesText(int num_layers, const std::vector<const char*>& kinds) {
  std::string text = absl::StrCat("a list of num_hidden_layers, ", num_layers, ", times ");
  for (size_t i = 0; i < kinds.size(); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : " or ", "\"", kinds[i], "\"");
  }
  return text;
}

// The index in `kinds` of each layer's kind, as list `name` has it; empty where there is no such
// list, or it is rejected.
std::vector<int> ReadKinds(JsonFields& fields, const char* name, int num_layers,
                           const std::vector<const char*>& kinds) {
  const nlohmann::json* const list = fields.Get(name);
  if (list == nullptr) return {};
  std::vector<int> layers;
  if (list->is_array()) {
    for (const nlohmann::json& item : *list) {
      for (size_t kind = 0; kind < kinds.size(); ++kind) {
        if (item == kinds[kind]) layers.push_back(static_cast<int>(kind));
      }
    }
  }
  if (!list->is_array() || layers.size() != list->size() ||
      layers.size() != static_cast<size_t>(num_layers)) {
    fields.Reject(name, LayerTypesText(num_layers, kinds));
    return {};
  }
  return layers;
}

// Checks what every kind has to fulfil.
RecurrentSpec CheckRecurrent(JsonFields& fields, const char* heads, const char* key_heads,
                             RecurrentSpec recurrent) {
  if (recurrent.num_heads % recurrent.num_key_heads != 0) {
    fields.Reject(key_heads, absl::StrCat("a divisor of ", heads, ", ", recurrent.num_heads));
    recurrent.num_key_heads = recurrent.num_heads;
  }
  if (int64_t{recurrent.num_heads} * std::max(recurrent.value_dim, recurrent.key_dim) > kMaxWidth) {
    fields.Fail(
        absl::StrCat(heads, " ", recurrent.num_heads, " times their size is above ", kMaxWidth));
  }
  return recurrent;
}

void RejectTrue(JsonFields& fields, const char* name) {
  if (ReadBool(fields, name, false)) {
    fields.Reject(name, "false", absl::StatusCode::kUnimplemented);
  }
}

}  // namespace

// ---- Qwen3-Next, Qwen3.5 and 3.6 ----

namespace {

constexpr TensorNames kDeltaNames = [] {
  TensorNames names = kLlamaNames;
  names.recurrent_qkv = "linear_attn.in_proj_qkv";
  names.recurrent_gate = "linear_attn.in_proj_z";
  names.beta = "linear_attn.in_proj_b";
  names.decay = "linear_attn.in_proj_a";
  names.conv = "linear_attn.conv1d";
  names.decay_bias = "linear_attn.dt_bias";
  names.log_rate = "linear_attn.A_log";
  names.recurrent_norm = "linear_attn.norm";
  names.recurrent_out = "linear_attn.out_proj";
  names.router = "mlp.gate";
  names.shared_gate = "mlp.shared_expert.gate_proj";
  names.shared_up = "mlp.shared_expert.up_proj";
  names.shared_down = "mlp.shared_expert.down_proj";
  names.shared_score = "mlp.shared_expert_gate";
  names.expert_gate = "mlp.experts.$1.gate_proj";
  names.expert_up = "mlp.experts.$1.up_proj";
  names.expert_down = "mlp.experts.$1.down_proj";
  return names;
}();

RecurrentSpec MapDelta(JsonFields& fields, const ModelConfig& config) {
  const auto read = [&](const char* name, int most, int otherwise) {
    return fields.OptionalInt(name, 1, most).value_or(otherwise);
  };
  RecurrentSpec delta{
      .kind = RecurrenceKind::kGatedDelta,
      .num_heads = read("linear_num_value_heads", kMaxStateHeads, 32),
      .num_key_heads = read("linear_num_key_heads", kMaxStateHeads, 16),
      .key_dim = read("linear_key_head_dim", kMaxStateDim, 128),
      .value_dim = read("linear_value_head_dim", kMaxStateDim, 128),
      .conv_width = fields.OptionalInt("linear_conv_kernel_dim", 2, kMaxConvWidth).value_or(4),
      .norm_eps = config.norm_eps};
  return CheckRecurrent(fields, "linear_num_value_heads", "linear_num_key_heads", delta);
}

// All but the MLPs, which are the caller's.
LayerSpec MapQwenHybrid(JsonFields& fields, ModelConfig& config) {
  LayerSpec layer = MapLlamaLike(fields, config, /*head_dim=*/256);
  config.norm_weight_offset = 1;
  layer.attention.qk_norm = true;
  layer.attention.output_gate = true;
  if (!ReadBool(fields, "attn_output_gate", true)) {
    fields.Reject("attn_output_gate", "true", absl::StatusCode::kUnimplemented);
  }
  RejectTrue(fields, "attention_bias");
  return layer;
}

// Every full_attention_interval-th layer has attention, unless the file names the layers.
void SetDeltaLayers(JsonFields& fields, const LayerSpec& layer, ModelConfig& config) {
  SetLayers(layer, config);
  const RecurrentSpec delta = MapDelta(fields, config);
  const int interval = fields.OptionalInt("full_attention_interval", 1, kMaxLayers).value_or(4);
  const std::vector<int> kinds =
      ReadKinds(fields, "layer_types", config.num_layers(), {"full_attention", "linear_attention"});
  for (int index = 0; index < config.num_layers(); ++index) {
    const bool is_delta = kinds.empty() ? (index + 1) % interval != 0 : kinds[index] == 1;
    if (!is_delta) continue;
    config.layers[index].attention = {.scale = layer.attention.scale, .recurrent = delta};
  }
}

MixtureSpec MapHybridExperts(JsonFields& fields, int otherwise, int otherwise_chosen,
                             const DenseMlpSpec& dense) {
  MixtureSpec mixture;
  RouterSpec& router = mixture.router;
  router.num_experts = fields.OptionalInt("num_experts", 1, kMostExperts).value_or(otherwise);
  router.num_chosen =
      fields.OptionalInt("num_experts_per_tok", 1, kMostExperts).value_or(otherwise_chosen);
  if (router.num_chosen > router.num_experts) {
    fields.Reject("num_experts_per_tok", absl::StrCat("1 to num_experts, ", router.num_experts));
  }
  router.normalised = true;
  mixture.expert = dense;
  mixture.expert.width = fields.Int("moe_intermediate_size", 1, kMaxWidth);
  mixture.shared_width =
      fields.OptionalInt("shared_expert_intermediate_size", 0, kMaxWidth).value_or(512);
  mixture.shared_score = mixture.shared_width > 0;
  return mixture;
}

}  // namespace

constinit const TensorNames kQwen35Names = kDeltaNames;

constinit const TensorNames kQwen35MoeNames = [] {
  TensorNames names = kDeltaNames;
  names.stacked_gate_up = "mlp.experts.gate_up_proj";
  names.stacked_down = "mlp.experts.down_proj";
  names.experts = ExpertStack::kRows;
  return names;
}();

constinit const TensorNames kQwen3NextNames = [] {
  TensorNames names = kDeltaNames;
  names.recurrent_qkv = names.recurrent_gate = "linear_attn.in_proj_qkvz";
  names.beta = names.decay = "linear_attn.in_proj_ba";
  names.recurrent = RecurrentFusion::kByKeyHead;
  return names;
}();

void MapQwen35(JsonFields& fields, ModelConfig& config) {
  SetDeltaLayers(fields, MapQwenHybrid(fields, config), config);
}

void MapQwen35Moe(JsonFields& fields, ModelConfig& config) {
  LayerSpec layer = MapQwenHybrid(fields, config);
  layer.mlp = MapHybridExperts(fields, 256, 8, DenseMlpOf(layer));
  SetDeltaLayers(fields, layer, config);
}

void MapQwen3Next(JsonFields& fields, ModelConfig& config) {
  const LayerSpec layer = MapQwenHybrid(fields, config);
  MixtureSpec mixture = MapHybridExperts(fields, 512, 10, DenseMlpOf(layer));
  mixture.router.normalised = ReadBool(fields, "norm_topk_prob", true);
  SetDeltaLayers(fields, layer, config);
  SetQwenMixtures(fields, mixture, config);
}

// ---- Granite 4 ----

constinit const TensorNames kGranite4Names = [] {
  TensorNames names = kLlamaNames;
  names.router = "block_sparse_moe.router.layer";
  names.expert_gate = "block_sparse_moe.experts.$1.gate_proj";
  names.expert_up = "block_sparse_moe.experts.$1.up_proj";
  names.expert_down = "block_sparse_moe.experts.$1.down_proj";
  names.stacked_gate_up = "block_sparse_moe.input_linear.weight";
  names.stacked_down = "block_sparse_moe.output_linear.weight";
  names.experts = ExpertStack::kRows;
  names.gate = names.up = names.shared_gate = names.shared_up = "shared_mlp.input_linear";
  names.down = names.shared_down = "shared_mlp.output_linear";
  names.gate_up = Fusion::kStacked;
  names.recurrent_qkv = names.recurrent_gate = names.decay = "mamba.in_proj";
  names.conv = "mamba.conv1d";
  names.decay_bias = "mamba.dt_bias";
  names.log_rate = "mamba.A_log";
  names.skip = "mamba.D";
  names.recurrent_norm = "mamba.norm";
  names.recurrent_out = "mamba.out_proj";
  names.recurrent = RecurrentFusion::kMamba;
  return names;
}();

namespace {

RecurrentSpec MapGraniteMamba(JsonFields& fields, const ModelConfig& config) {
  const auto read = [&](const char* name, int most, int otherwise) {
    return fields.OptionalInt(name, 1, most).value_or(otherwise);
  };
  RecurrentSpec mamba{
      .kind = RecurrenceKind::kStateSpace,
      .num_heads = read("mamba_n_heads", kMaxStateHeads, 128),
      .num_key_heads = read("mamba_n_groups", kMaxStateHeads, 1),
      .key_dim = read("mamba_d_state", kMaxStateDim, 256),
      .conv_width = fields.OptionalInt("mamba_d_conv", 2, kMaxConvWidth).value_or(4),
      .conv_bias = ReadBool(fields, "mamba_conv_bias", true),
      .norm_eps = config.norm_eps,
      .most_step = std::numeric_limits<float>::max()};
  const int64_t inner = int64_t{1} * read("mamba_expand", 64, 2) * config.hidden_size;
  const nlohmann::json* const size = fields.Get("mamba_d_head");
  mamba.value_dim = size == nullptr || *size == "auto"
                        ? static_cast<int>(std::max<int64_t>(1, inner / mamba.num_heads))
                        : fields.Int("mamba_d_head", 1, kMaxStateDim);
  RejectTrue(fields, "mamba_proj_bias");
  return CheckRecurrent(fields, "mamba_n_heads", "mamba_n_groups", mamba);
}

}  // namespace

void MapGranite4(JsonFields& fields, ModelConfig& config) {
  MapGraniteMoe(fields, config);
  const int shared = fields.OptionalInt("shared_intermediate_size", 1, kMaxWidth).value_or(1024);
  const bool has_experts = fields.OptionalInt("num_local_experts", 0, kMostExperts).value_or(8) > 0;
  const bool rotates = fields.String("position_embedding_type").value_or("") == "rope";
  const std::vector<int> kinds =
      ReadKinds(fields, "layer_types", config.num_layers(), {"attention", "mamba"});
  const RecurrentSpec mamba = MapGraniteMamba(fields, config);
  for (int index = 0; index < config.num_layers(); ++index) {
    LayerSpec& layer = config.layers[index];
    const DenseMlpSpec expert = std::get<MixtureSpec>(layer.mlp).expert;
    if (has_experts) {
      std::get<MixtureSpec>(layer.mlp).shared_width = shared;
    } else {
      layer.mlp = DenseMlpSpec{.width = shared, .activation = expert.activation};
    }
    if (!rotates) layer.attention.rope.reset();
    if (kinds.empty() || kinds[index] == 1) {
      layer.attention = {.scale = layer.attention.scale, .recurrent = mamba};
    }
  }
  if (!rotates) config.ropes.clear();
}

// ---- Nemotron-H ----

constinit const TensorNames kNemotronNames = {
    .embedding = "backbone.embeddings",
    .final_norm = "backbone.norm_f",
    .head = "lm_head",
    .layer = "backbone.layers.$0.",
    .attention_norm = "norm",
    .q = "mixer.q_proj",
    .k = "mixer.k_proj",
    .v = "mixer.v_proj",
    .o = "mixer.o_proj",
    .mlp_norm = "norm",
    .up = "mixer.up_proj",
    .down = "mixer.down_proj",
    .router = "mixer.gate",
    .choice_bias = "mixer.gate.e_score_correction_bias",
    .expert_up = "mixer.experts.$1.up_proj",
    .expert_down = "mixer.experts.$1.down_proj",
    .shared_up = "mixer.shared_experts.up_proj",
    .shared_down = "mixer.shared_experts.down_proj",
    .recurrent_qkv = "mixer.in_proj",
    .recurrent_gate = "mixer.in_proj",
    .decay = "mixer.in_proj",
    .conv = "mixer.conv1d",
    .decay_bias = "mixer.dt_bias",
    .log_rate = "mixer.A_log",
    .skip = "mixer.D",
    .recurrent_norm = "mixer.norm",
    .recurrent_out = "mixer.out_proj",
    .recurrent = RecurrentFusion::kMamba,
};

namespace {

enum NemotronKind { kMamba, kAttention, kDenseMlp, kMixture };

// The kind of each layer by its letter in hybrid_override_pattern or its name in layers_block_type.
std::vector<int> ReadNemotronKinds(JsonFields& fields, int num_layers) {
  std::vector<int> kinds =
      ReadKinds(fields, "layers_block_type", num_layers,
                {"mamba", "attention", "mlp", "moe", "linear_attention", "full_attention"});
  for (int& kind : kinds) {
    if (kind == 4) kind = kMamba;
    if (kind == 5) kind = kAttention;
  }
  if (!kinds.empty() || fields.Has("layers_block_type")) return kinds;
  for (const char letter : fields.RequiredString("hybrid_override_pattern")) {
    const size_t kind = std::string("M*-E").find(letter);
    if (kind != std::string::npos) kinds.push_back(static_cast<int>(kind));
  }
  const auto written = fields.String("hybrid_override_pattern").value_or("");
  if (kinds.size() != written.size() || kinds.size() != static_cast<size_t>(num_layers)) {
    fields.Reject("hybrid_override_pattern",
                  absl::StrCat("num_hidden_layers, ", num_layers, ", letters of M, *, - and E"));
    return {};
  }
  return kinds;
}

RecurrentSpec MapNemotronMamba(JsonFields& fields, const ModelConfig& config) {
  const auto read = [&](const char* name, int most, int otherwise) {
    return fields.OptionalInt(name, 1, most).value_or(otherwise);
  };
  RecurrentSpec mamba{.kind = RecurrenceKind::kStateSpace,
                      .num_heads = read("mamba_num_heads", kMaxStateHeads, 128),
                      .num_key_heads = read("n_groups", kMaxStateHeads, 8),
                      .key_dim = read("ssm_state_size", kMaxStateDim, 128),
                      .value_dim = read("mamba_head_dim", kMaxStateDim, 64),
                      .conv_width = fields.OptionalInt("conv_kernel", 2, kMaxConvWidth).value_or(4),
                      .conv_bias = ReadBool(fields, "use_conv_bias", true),
                      .norm_eps = config.norm_eps,
                      .most_step = std::numeric_limits<float>::max()};
  mamba.norm_groups = mamba.num_key_heads;
  const nlohmann::json* const limits = fields.Get("time_step_limit");
  if (limits != nullptr) {
    const bool known = limits->is_array() && limits->size() == 2 && (*limits)[0].is_number() &&
                       ((*limits)[1].is_number() || (*limits)[1].is_null());
    if (!known) {
      fields.Reject("time_step_limit", "a list of two numbers");
    } else {
      mamba.least_step = (*limits)[0].get<float>();
      if ((*limits)[1].is_number()) {
        mamba.most_step = static_cast<float>(
            std::min((*limits)[1].get<double>(), double{std::numeric_limits<float>::max()}));
      }
    }
  }
  RejectTrue(fields, "use_bias");
  return CheckRecurrent(fields, "mamba_num_heads", "n_groups", mamba);
}

// As DeepSeek-V3's, with one expert beside the chosen ones.
MixtureSpec MapNemotronExperts(JsonFields& fields, const DenseMlpSpec& dense) {
  MixtureSpec mixture;
  RouterSpec& router = mixture.router;
  router.num_experts = fields.OptionalInt("n_routed_experts", 1, kMostExperts).value_or(8);
  router.num_chosen = fields.OptionalInt("num_experts_per_tok", 1, kMostExperts).value_or(2);
  router.num_groups = fields.OptionalInt("n_group", 1, kMostExperts).value_or(1);
  router.num_kept_groups = fields.OptionalInt("topk_group", 1, kMostExperts).value_or(1);
  if (router.num_experts % router.num_groups != 0) {
    fields.Reject("n_group", absl::StrCat("a divisor of n_routed_experts, ", router.num_experts));
    router.num_groups = 1;
  }
  const int of_group = router.num_experts / router.num_groups;
  if (router.num_kept_groups > router.num_groups ||
      router.num_kept_groups * of_group < router.num_chosen) {
    fields.Reject("topk_group",
                  absl::StrCat("at most n_group, ", router.num_groups,
                               ", and enough for num_experts_per_tok, ", router.num_chosen));
    router.num_kept_groups = router.num_groups;
  }
  router.num_best_of_group = std::min(2, of_group);
  router.scores = RouterScores::kSigmoid;
  router.choice_bias = true;
  router.normalised = ReadBool(fields, "norm_topk_prob", true);
  router.least_sum = 1e-20F;
  router.factor =
      static_cast<float>(fields.NumberAbove("routed_scaling_factor", 0, 1e6).value_or(1));
  mixture.expert = dense;
  mixture.expert.width = fields.Int("moe_intermediate_size", 1, kMaxWidth);
  mixture.shared_width = fields.Int("moe_shared_expert_intermediate_size", 1, kMaxWidth);
  return mixture;
}

}  // namespace

void MapNemotronH(JsonFields& fields, ModelConfig& config) {
  LayerSpec attention = MapSizes(fields, config, /*head_dim=*/128);
  MapRmsNorm(fields, {"layer_norm_epsilon"}, 1e-5, config);
  config.tied_embeddings = ReadBool(fields, "tie_word_embeddings", false);
  RejectTrue(fields, "mlp_bias");
  RejectTrue(fields, "attention_bias");
  if (fields.Has("moe_latent_size")) {
    fields.Reject("moe_latent_size", "null", absl::StatusCode::kUnimplemented);
  }
  DenseMlpSpec dense = DenseMlpOf(attention);
  dense.squared = fields.String("mlp_hidden_act").value_or("relu2") == "relu2";
  dense.activation = dense.squared ? Activation::kRelu
                                   : ReadActivation(fields, "mlp_hidden_act", Activation::kRelu);
  dense.gated = false;
  const std::vector<int> kinds = ReadNemotronKinds(fields, config.num_layers());
  if (kinds.empty()) return;
  LayerSpec mlp{.norms = {.before_attention = false}};
  mlp.attention = {.scale = attention.attention.scale, .absent = true};
  attention.mlp = NoMlpSpec{};
  attention.norms.before_mlp = false;
  const RecurrentSpec mamba = MapNemotronMamba(fields, config);
  for (int index = 0; index < config.num_layers(); ++index) {
    LayerSpec& layer = config.layers[index];
    layer = kinds[index] == kMamba || kinds[index] == kAttention ? attention : mlp;
    if (kinds[index] == kMamba) {
      layer.attention = {.scale = attention.attention.scale, .recurrent = mamba};
    }
    if (kinds[index] == kDenseMlp) layer.mlp = dense;
    if (kinds[index] == kMixture) layer.mlp = MapNemotronExperts(fields, dense);
  }
}

}  // namespace sluice
