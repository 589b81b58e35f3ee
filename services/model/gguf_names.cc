#include "services/model/gguf_names.h"

#include <algorithm>
#include <iterator>
#include <string>

namespace sluice {
namespace {

constexpr TensorNames kPlain = {
    .embedding = "token_embd",
    .positions = "position_embd",
    .final_norm = "output_norm",
    .head = "output",
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
    .experts = ExpertStack::kModules,
    .shared_score_is_vector = true,
};

// Their rotations turn neighbouring pairs.
constexpr const char* kPairedFamilies[] = {
    "llama",      "mistral",    "mixtral",          "smollm3", "granite",
    "granitemoe", "ministral3", "granitemoeshared", "minicpm", "internlm2"};

// Gate and up are one below the other.
constexpr const char* kFusedMlpFamilies[] = {"phi3", "glm", "glm4"};

// The norm before their MLP is called after what it follows.
constexpr const char* kLateNormFamilies[] = {"gpt_oss", "glm4_moe"};

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

}  // namespace

TensorNames GgufTensorNames(const ModelConfig& config, const Checkpoint& checkpoint) {
  TensorNames names = kPlain;
  names.paired_rows = IsOneOf(kPairedFamilies, config.model_type);
  if (IsOneOf(kLateNormFamilies, config.model_type)) names.mlp_norm = names.attention_post_norm;
  if (checkpoint.Has("blk.0.attn_qkv.weight")) {
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
  NameExperts(config, checkpoint, names);
  return names;
}

}  // namespace sluice
