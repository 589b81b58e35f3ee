#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/model/gguf/gguf_architectures.h"

namespace sluice {
namespace {

using nlohmann::json;

constexpr int64_t kSigmoidScores = 2;  // a value of expert_gating_func

// The layers without a mixture.
std::vector<int64_t> DenseLayers(GgufConfigWriter& writer) {
  const std::vector<int64_t> mixtures = writer.LayersWith("ffn_gate_inp.weight");
  std::vector<int64_t> dense;
  for (const int64_t layer : writer.LayersWith("ffn_norm.weight")) {
    if (std::find(mixtures.begin(), mixtures.end(), layer) == mixtures.end())
      dense.push_back(layer);
  }
  return dense;
}

void WriteQwenMoe(GgufConfigWriter& writer) {
  writer.SetRotary();
  writer.config()["mlp_only_layers"] = DenseLayers(writer);
  writer.CopyInt("num_experts", "expert_count");
  writer.CopyInt("num_experts_per_tok", "expert_used_count");
  writer.SetExpertWidth("moe_intermediate_size", "expert_feed_forward_length",
                        "ffn_gate_exps.weight");
}

// What the mixtures of DeepSeek and those built like them have in common.
void WriteDeepSeekMixture(GgufConfigWriter& writer) {
  writer.CopyInt("n_routed_experts", "expert_count");
  writer.CopyInt("num_experts_per_tok", "expert_used_count");
  writer.config()["n_shared_experts"] = writer.Int("expert_shared_count").value_or(0);
  writer.CopyInt("first_k_dense_replace", "leading_dense_block_count");
  writer.SetExpertWidth("moe_intermediate_size", "expert_feed_forward_length",
                        "ffn_gate_exps.weight");
  writer.CopyNumber("routed_scaling_factor", "expert_weights_scale");
  json& config = writer.config();
  config["n_group"] = std::max<int64_t>(writer.Int("expert_group_count").value_or(1), 1);
  config["topk_group"] = std::max<int64_t>(writer.Int("expert_group_used_count").value_or(1), 1);
}

}  // namespace

void WriteGgufQwen2Moe(GgufConfigWriter& writer) {
  WriteQwenMoe(writer);
  writer.SetExpertWidth("shared_expert_intermediate_size", "expert_shared_feed_forward_length",
                        "ffn_gate_shexp.weight");
  writer.config()["norm_topk_prob"] = false;
}

void WriteGgufQwen3Moe(GgufConfigWriter& writer) {
  WriteQwenMoe(writer);
  writer.SetAttentionBias("attention_bias");
  writer.config()["norm_topk_prob"] = true;
}

void WriteGgufOlmoe(GgufConfigWriter& writer) {
  writer.SetRotary();
  writer.CopyInt("num_experts", "expert_count");
  writer.CopyInt("num_experts_per_tok", "expert_used_count");
  writer.CopyNumber("clip_qkv", "attention.clamp_kqv");
  writer.config()["norm_topk_prob"] = false;
}

// Its scaling of positions has no whole pairs at the ends of the blended band.
void WriteGgufGptOss(GgufConfigWriter& writer) {
  writer.SetRotary();
  writer.SetWindow();
  writer.SetAttentionBias("attention_bias");
  writer.CopyInt("num_local_experts", "expert_count");
  writer.CopyInt("num_experts_per_tok", "expert_used_count");
  writer.SetExpertWidth("intermediate_size", "expert_feed_forward_length", "ffn_gate_exps.weight");
  json& config = writer.config();
  if (config.contains("rope_scaling")) config["rope_scaling"]["truncate"] = false;
}

void WriteGgufGlm4Moe(GgufConfigWriter& writer) {
  writer.SetRotary();
  WriteDeepSeekMixture(writer);
  writer.CopyBool("norm_topk_prob", "expert_weights_norm");
  writer.SetAttentionBias("attention_bias");
  writer.config()["use_qk_norm"] = writer.HasTensor("blk.0.attn_q_norm.weight");
}

// DeepSeek V2, whose scores are a softmax, and V3 with all that is built like it. Files of before
// latents were cached have heads' sizes under other keys.
void WriteGgufDeepSeek2(GgufConfigWriter& writer) {
  writer.SetSizes();
  writer.CopyNumber("rms_norm_eps", "attention.layer_norm_rms_epsilon");
  writer.CopyNumber("rope_theta", "rope.freq_base");
  WriteDeepSeekMixture(writer);
  json& config = writer.config();
  config.erase("head_dim");
  config.erase("num_key_value_heads");
  const auto size = [&](const char* key, const char* old) {
    return writer.Int(writer.Int(key).has_value() ? key : old).value_or(0);
  };
  const int64_t rope = writer.Int("rope.dimension_count").value_or(0);
  config["qk_rope_head_dim"] = rope;
  config["qk_nope_head_dim"] = size("attention.key_length_mla", "attention.key_length") - rope;
  config["v_head_dim"] = size("attention.value_length_mla", "attention.value_length");
  writer.CopyInt("kv_lora_rank", "attention.kv_lora_rank");
  const auto query_rank = writer.Int("attention.q_lora_rank");
  const bool has_rank = query_rank.value_or(0) > 0 && writer.HasTensor("blk.0.attn_q_a.weight");
  config["q_lora_rank"] = has_rank ? json(*query_rank) : json(nullptr);
  const bool is_third = writer.Int("expert_gating_func").value_or(1) == kSigmoidScores;
  if (is_third) {
    writer.CopyBool("norm_topk_prob", "expert_weights_norm");
  } else {
    config["model_type"] = "deepseek_v2";
    config["topk_method"] = config["n_group"] > 1 ? "group_limited_greedy" : "greedy";
    config["norm_topk_prob"] = false;
  }
  writer.SetRopeScaling(rope);
  // Of the logarithm of the factor.
  const auto weight = writer.Number("rope.scaling.yarn_log_multiplier");
  if (weight.has_value() && config.contains("rope_scaling")) {
    config["rope_scaling"]["mscale"] = config["rope_scaling"]["mscale_all_dim"] = *weight / 0.1;
  }
}

void WriteGgufErnieMoe(GgufConfigWriter& writer) {
  WriteGgufErnie(writer);
  writer.CopyInt("moe_num_experts", "expert_count");
  writer.CopyInt("moe_k", "expert_used_count");
  writer.SetExpertWidth("moe_intermediate_size", "expert_feed_forward_length",
                        "ffn_gate_exps.weight");
  const bool shares = writer.HasTensor(
      absl::StrCat("blk.", std::max<int64_t>(writer.NumLayers() - 1, 0), ".ffn_up_shexp.weight"));
  json& config = writer.config();
  config["moe_num_shared_experts"] = writer.Int("expert_shared_count").value_or(shares ? 1 : 0);
  const std::vector<int64_t> layers = writer.LayersWith("ffn_gate_inp.weight");
  writer.CopyInt("moe_layer_interval", "interleave_moe_layer_step");
  config["moe_layer_start_index"] = layers.empty() ? writer.NumLayers() : layers.front();
  config["moe_layer_end_index"] = layers.empty() ? -1 : layers.back();
}

// Files do not say whether heads are normalised: those of 128 experts, Maverick's, are not.
void WriteGgufLlama4(GgufConfigWriter& writer) {
  writer.SetRotary();
  json& config = writer.config();
  writer.CopyInt("intermediate_size_mlp", "feed_forward_length");
  writer.SetExpertWidth("intermediate_size", "expert_feed_forward_length", "ffn_gate_exps.weight");
  writer.CopyInt("num_local_experts", "expert_count");
  writer.CopyInt("num_experts_per_tok", "expert_used_count");
  config["moe_layers"] = writer.LayersWith("ffn_gate_inp.weight");
  config["use_qk_norm"] = writer.Int("expert_count").value_or(0) != 128;
}

void WriteGgufGraniteMoe(GgufConfigWriter& writer) {
  WriteGgufGranite(writer);
  writer.CopyInt("num_local_experts", "expert_count");
  writer.CopyInt("num_experts_per_tok", "expert_used_count");
  writer.SetExpertWidth("intermediate_size", "expert_feed_forward_length", "ffn_gate_exps.weight");
  if (writer.Int("expert_shared_feed_forward_length").value_or(0) == 0) return;
  writer.config()["model_type"] = "granitemoeshared";
  writer.CopyInt("shared_intermediate_size", "expert_shared_feed_forward_length");
}

}  // namespace sluice
