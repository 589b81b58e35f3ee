#include <algorithm>
#include <cmath>

#include "services/model/gguf/gguf_architectures.h"

namespace sluice {
namespace {

using nlohmann::json;

// The scalar of queries: of the largest models by the hidden size, of the others by heads.
void WriteGemma2Like(GgufConfigWriter& writer, int64_t largest_layers) {
  writer.SetRotary();
  writer.SetWindow();
  json& config = writer.config();
  const int64_t heads = std::max<int64_t>(writer.Int("attention.head_count").value_or(1), 1);
  const bool is_largest = writer.NumLayers() == largest_layers;
  config["query_pre_attn_scalar"] =
      is_largest ? writer.Int("embedding_length").value_or(0) / heads : writer.HeadDim();
  writer.CopyNumber("final_logit_softcapping", "final_logit_softcapping");
}

}  // namespace

void WriteGgufRotary(GgufConfigWriter& writer) { writer.SetRotary(); }

// Llama's architecture is also that of Mistral, with a window, and of Mixtral.
void WriteGgufLlama(GgufConfigWriter& writer) {
  writer.SetRotary();
  writer.SetBiases();
  writer.SetWindow();
  if (writer.config().contains("sliding_window")) writer.config()["model_type"] = "mistral";
  if (writer.Int("expert_count").value_or(0) <= 0) return;
  writer.config()["model_type"] = "mixtral";
  writer.CopyInt("num_local_experts", "expert_count");
  writer.CopyInt("num_experts_per_tok", "expert_used_count");
  writer.CopyInt("intermediate_size", "expert_feed_forward_length");
}

void WriteGgufSmolLm3(GgufConfigWriter& writer) {
  writer.SetRotary();
  writer.SetBiases();
}

void WriteGgufQwen3(GgufConfigWriter& writer) {
  writer.SetRotary();
  writer.SetAttentionBias("attention_bias");
}

void WriteGgufPhi3(GgufConfigWriter& writer) {
  writer.SetRotary();
  writer.SetWindow();
}

void WriteGgufGemma2(GgufConfigWriter& writer) {
  WriteGemma2Like(writer, 46);
  writer.CopyNumber("attn_logit_softcapping", "attn_logit_softcapping");
}

void WriteGgufGemma3(GgufConfigWriter& writer) {
  WriteGemma2Like(writer, 62);
  writer.CopyNumber("rope_local_base_freq", "rope.freq_base_swa");
}

void WriteGgufGranite(GgufConfigWriter& writer) {
  writer.SetRotary();
  writer.SetBiases();
  json& config = writer.config();
  const double scale = writer.Number("attention.scale").value_or(0);
  const auto head_dim = static_cast<double>(std::max<int64_t>(writer.HeadDim(), 1));
  config["attention_multiplier"] = scale > 0 ? scale : 1 / std::sqrt(head_dim);
  writer.CopyNumber("embedding_multiplier", "embedding_scale");
  writer.CopyNumber("residual_multiplier", "residual_scale");
  writer.CopyNumber("logits_scaling", "logit_scale");
}

// The constants where files of the first converters lack them are MiniCPM 2B's.
void WriteGgufMiniCpm(GgufConfigWriter& writer) {
  writer.SetRotary();
  writer.SetBiases();
  json& config = writer.config();
  const auto layers = static_cast<double>(std::max<int64_t>(writer.NumLayers(), 1));
  const auto hidden = static_cast<double>(writer.Int("embedding_length").value_or(0));
  const auto logit_scale = writer.Number("logit_scale");
  config["scale_emb"] = writer.Number("embedding_scale").value_or(12);
  config["scale_depth"] =
      writer.Number("residual_scale").value_or(1.4 / std::sqrt(layers)) * std::sqrt(layers);
  config["dim_model_base"] = logit_scale.value_or(0) > 0 ? hidden / *logit_scale : 256;
}

// OLMo 3 is OLMo 2 with windows.
void WriteGgufOlmo2(GgufConfigWriter& writer) {
  writer.SetRotary();
  writer.SetWindow();
  if (writer.config().contains("sliding_window")) writer.config()["model_type"] = "olmo3";
}

void WriteGgufCohere(GgufConfigWriter& writer) {
  writer.SetSizes();
  writer.SetWindow();
  writer.SetRope("partial_rotary_factor");
  writer.CopyNumber("layer_norm_eps", "attention.layer_norm_epsilon");
  writer.CopyNumber("logit_scale", "logit_scale");
  writer.config()["use_qk_norm"] = writer.HasTensor("blk.0.attn_q_norm.weight");
}

void WriteGgufStarCoder2(GgufConfigWriter& writer) {
  writer.SetSizes();
  writer.SetWindow();
  writer.SetRope("partial_rotary_factor");
  writer.CopyNumber("norm_epsilon", "attention.layer_norm_epsilon");
  writer.SetAttentionBias("use_bias");
}

void WriteGgufStableLm(GgufConfigWriter& writer) {
  writer.SetSizes();
  writer.SetRope("partial_rotary_factor");
  writer.CopyNumber("layer_norm_eps", "attention.layer_norm_epsilon");
  json& config = writer.config();
  writer.SetAttentionBias("use_qkv_bias");
  config["qk_layernorm"] = writer.HasTensor("blk.0.attn_q_norm.weight");
  config["use_parallel_residual"] = !writer.HasTensor("blk.0.ffn_norm.weight");
}

void WriteGgufGlm(GgufConfigWriter& writer) {
  writer.SetRotary();
  writer.config()["attention_bias"] =
      writer.HasTensor("blk.0.attn_q.bias") || writer.HasTensor("blk.0.attn_qkv.bias");
}

void WriteGgufInternLm2(GgufConfigWriter& writer) {
  writer.SetRotary();
  writer.SetAttentionBias("bias");
}

void WriteGgufPhi2(GgufConfigWriter& writer) {
  writer.SetSizes();
  writer.SetRope("partial_rotary_factor");
  writer.CopyNumber("layer_norm_eps", "attention.layer_norm_epsilon");
  writer.config()["qk_layernorm"] = writer.HasTensor("blk.0.attn_q_norm.weight");
}

// Ministral 3: queries grow with their position.
void WriteGgufMistral3(GgufConfigWriter& writer) {
  writer.SetRotary();
  json& config = writer.config();
  if (!config.contains("rope_scaling")) return;
  json& scaling = config["rope_scaling"];
  if (const auto weight = writer.Number("rope.scaling.yarn_log_multiplier")) {
    scaling["mscale"] = scaling["mscale_all_dim"] = *weight;
  }
  if (const auto beta = writer.Number("attention.temperature_scale")) {
    scaling["llama_4_scaling_beta"] = *beta;
  }
}

void WriteGgufErnie(GgufConfigWriter& writer) {
  writer.SetRotary();
  writer.SetAttentionBias("use_bias");
}

void WriteGgufGpt2(GgufConfigWriter& writer) {
  writer.SetVocabSize();
  writer.CopyInt("n_embd", "embedding_length");
  writer.CopyInt("n_inner", "feed_forward_length");
  writer.CopyInt("n_layer", "block_count");
  writer.CopyInt("n_head", "attention.head_count");
  writer.CopyInt("n_positions", "context_length");
  writer.CopyNumber("layer_norm_epsilon", "attention.layer_norm_epsilon");
  writer.SetTied();
}

void WriteGgufGptNeox(GgufConfigWriter& writer) {
  writer.SetSizes();
  writer.CopyNumber("layer_norm_eps", "attention.layer_norm_epsilon");
  writer.CopyBool("use_parallel_residual", "use_parallel_residual");
  writer.SetRope("rotary_pct");
}

}  // namespace sluice
