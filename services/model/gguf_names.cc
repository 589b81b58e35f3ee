#include "services/model/gguf_names.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

constexpr TensorNames kPlain = {
    .embedding = "token_embd",
    .positions = "position_embd",
    .final_norm = "output_norm",
    .head = "output",
    .side_embedding = "per_layer_token_embd",
    .side_projection = "per_layer_model_proj",
    .side_projection_norm = "per_layer_proj_norm",
    .layer = "blk.$0.",
    .attention_norm = "attn_norm",
    .q = "attn_q",
    .k = "attn_k",
    .v = "attn_v",
    .q_norm = "attn_q_norm",
    .k_norm = "attn_k_norm",
    .o = "attn_output",
    .q_a = "attn_q_a",
    .q_a_norm = "attn_q_a_norm",
    .q_b = "attn_q_b",
    .kv_a = "attn_kv_a_mqa",
    .kv_a_norm = "attn_kv_a_norm",
    .kv_b = "attn_kv_b",
    .mlp_norm = "ffn_norm",
    .gate = "ffn_gate",
    .up = "ffn_up",
    .down = "ffn_down",
    .attention_post_norm = "post_attention_norm",
    .mlp_post_norm = "post_ffw_norm",
    .router = "ffn_gate_inp",
    .choice_bias = "exp_probs_b.bias",
    .expert_gate = "ffn_gate_exps",
    .expert_up = "ffn_up_exps",
    .expert_down = "ffn_down_exps",
    .shared_gate = "ffn_gate_shexp",
    .shared_up = "ffn_up_shexp",
    .shared_down = "ffn_down_shexp",
    .shared_score = "ffn_gate_inp_shexp",
    .sinks = "attn_sinks.weight",
    .conv = "ssm_conv1d",
    .decay_bias = "ssm_dt.bias",
    .log_rate = "ssm_a",
    .skip = "ssm_d",
    .recurrent_norm = "ssm_norm",
    .recurrent_out = "ssm_out",
    .mixture_norm = "pre_ffw_norm_2",
    .beside_post_norm = "post_ffw_norm_1",
    .mixture_post_norm = "post_ffw_norm_2",
    .router_scale = "ffn_gate_inp.scale",
    .expert_factors = "ffn_down_exps.scale",
    .output_factor = "layer_output_scale.weight",
    .side_gate = "inp_gate",
    .side_out = "proj",
    .side_norm = "post_norm",
    .experts = ExpertStack::kModules,
    .rates_are_negative = true,
    .conv_is_matrix = true,
    .shared_score_is_vector = true,
};

// Their rotations turn neighbouring pairs.
constexpr const char* kPairedFamilies[] = {
    "llama",      "mistral",          "mixtral", "smollm3",   "granite",         "granitemoe",
    "ministral3", "granitemoeshared", "minicpm", "internlm2", "granitemoehybrid"};

// Gate and up are one below the other.
constexpr const char* kFusedMlpFamilies[] = {"phi3", "glm", "glm4"};

// The norm before their MLP is called after what it follows.
constexpr const char* kLateNormFamilies[] = {"gpt_oss", "glm4_moe", "qwen3_next", "qwen3_5_text",
                                             "qwen3_5_moe_text"};

template <size_t kSize>
bool IsOneOf(const char* const (&families)[kSize], const std::string& family) {
  return std::find(std::begin(families), std::end(families), family) != std::end(families);
}

// The files of 2023 have a tensor for each expert.
void NameExperts(const ModelConfig& config, const Checkpoint& checkpoint, TensorNames& names) {
  const bool apart = checkpoint.Has("blk.0.ffn_gate.0.weight");
  if (!apart || MixtureOf(config.layers.front()) == nullptr) return;
  names.experts = ExpertStack::kNone;
  names.expert_gate = "ffn_gate.$1";
  names.expert_up = "ffn_up.$1";
  names.expert_down = "ffn_down.$1";
}

// Gates and ups of all experts in one.
void NameJoinedExperts(const ModelConfig& config, const Checkpoint& checkpoint,
                       TensorNames& names) {
  for (int layer = 0; layer < config.num_layers(); ++layer) {
    if (MixtureOf(config.layers[layer]) == nullptr) continue;
    if (!checkpoint.Has(absl::StrCat("blk.", layer, ".ffn_gate_up_exps.weight"))) return;
    names.experts = ExpertStack::kRows;
    names.stacked_gate_up = "ffn_gate_up_exps.weight";
    names.stacked_down = "ffn_down_exps.weight";
    return;
  }
}

// Layers with states are those of Mamba, of Qwen3-Next, whose first files have all projections in one,
// or of Qwen3.5.
void NameRecurrent(const ModelConfig& config, const Checkpoint& checkpoint, TensorNames& names) {
  if (config.recurrent()->kind == RecurrenceKind::kStateSpace) {
    names.recurrent_qkv = names.recurrent_gate = names.decay = "ssm_in";
    names.recurrent = RecurrentFusion::kMamba;
    return;
  }
  names.recurrent_qkv = "attn_qkv";
  names.recurrent_gate = "attn_gate";
  if (config.model_type != "qwen3_next") {
    names.beta = "ssm_beta";
    names.decay = "ssm_alpha";
    names.recurrent = RecurrentFusion::kQkvTiled;
    return;
  }
  names.beta = names.decay = "ssm_ba";
  names.recurrent = RecurrentFusion::kQkvPairs;
  if (!checkpoint.Has("blk.0.ssm_in.weight")) return;
  names.recurrent_qkv = names.recurrent_gate = "ssm_in";
  names.recurrent = RecurrentFusion::kByKeyHead;
}

}  // namespace

TensorNames GgufTensorNames(const ModelConfig& config, const Checkpoint& checkpoint) {
  TensorNames names = kPlain;
  names.paired_rows = IsOneOf(kPairedFamilies, config.model_type);
  if (IsOneOf(kLateNormFamilies, config.model_type)) names.mlp_norm = names.attention_post_norm;
  if (config.recurrent() != nullptr) {
    NameRecurrent(config, checkpoint, names);
  } else if (checkpoint.Has("blk.0.attn_qkv.weight")) {
    names.q = names.k = names.v = "attn_qkv";
    names.qkv = Fusion::kStacked;
  }
  if (IsOneOf(kFusedMlpFamilies, config.model_type)) {
    names.gate = "ffn_up";
    names.gate_up = Fusion::kStacked;
  }
  if (checkpoint.Has("blk.0.attn_k_b.weight")) {
    names.k_b = "attn_k_b";
    names.v_b = "attn_v_b";
  }
  // Its layers have one norm each.
  if (config.model_type == "nemotron_h") names.mlp_norm = names.attention_norm;
  NameExperts(config, checkpoint, names);
  NameJoinedExperts(config, checkpoint, names);
  return names;
}

}  // namespace sluice
