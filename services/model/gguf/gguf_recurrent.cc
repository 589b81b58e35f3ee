#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/model/gguf/gguf_architectures.h"

namespace sluice {
namespace {

using nlohmann::json;

// What each layer is, by the tensors that it has: the first of these kinds.
struct LayerKind {
  const char* tensor;
  const char* name;
};

json KindsOf(GgufConfigWriter& writer, const std::vector<LayerKind>& kinds) {
  json names = json::array();
  const int64_t layers = std::clamp<int64_t>(writer.NumLayers(), 0, kMostGgufLayers);
  for (int64_t layer = 0; layer < layers; ++layer) {
    const auto kind = std::ranges::find_if(kinds, [&](const LayerKind& each) {
      return writer.HasTensor(absl::StrCat("blk.", layer, ".", each.tensor));
    });
    if (kind != kinds.end()) {
      names.push_back(kind->name);
      continue;
    }
    writer.fields().Fail(absl::StrCat(
        "layer ", layer, " has neither tensors of attention nor of a state, nor of an MLP"));
    break;
  }
  return names;
}

// Of all heads of a state an even share; 0 where the file has none.
int64_t ValueDim(GgufConfigWriter& writer) {
  const int64_t heads = std::max<int64_t>(writer.Int("ssm.time_step_rank").value_or(1), 1);
  return writer.Int("ssm.inner_size").value_or(0) / heads;
}

void WriteDelta(GgufConfigWriter& writer) {
  writer.SetRotary();
  writer.CopyInt("linear_conv_kernel_dim", "ssm.conv_kernel");
  writer.CopyInt("linear_key_head_dim", "ssm.state_size");
  writer.CopyInt("linear_num_key_heads", "ssm.group_count");
  writer.CopyInt("linear_num_value_heads", "ssm.time_step_rank");
  writer.config()["linear_value_head_dim"] = ValueDim(writer);
  writer.config()["layer_types"] = KindsOf(
      writer, {{"ssm_out.weight", "linear_attention"}, {"attn_q.weight", "full_attention"}});
}

bool HasConvBias(GgufConfigWriter& writer) { return !writer.LayersWith("ssm_conv1d.bias").empty(); }

}  // namespace

void WriteGgufQwen35(GgufConfigWriter& writer) { WriteDelta(writer); }

void WriteGgufQwen35Moe(GgufConfigWriter& writer) {
  WriteDelta(writer);
  writer.CopyInt("num_experts", "expert_count");
  writer.CopyInt("num_experts_per_tok", "expert_used_count");
  writer.SetExpertWidth("moe_intermediate_size", "expert_feed_forward_length",
                        "ffn_gate_exps.weight");
  writer.SetExpertWidth("shared_expert_intermediate_size", "expert_shared_feed_forward_length",
                        "ffn_gate_shexp.weight");
}

void WriteGgufQwen3Next(GgufConfigWriter& writer) {
  WriteGgufQwen35Moe(writer);
  json dense = json::array();
  const std::vector<int64_t> mixtures = writer.LayersWith("ffn_gate_inp.weight");
  for (const int64_t layer : writer.LayersWith("attn_norm.weight")) {
    if (!std::ranges::binary_search(mixtures, layer)) dense.push_back(layer);
  }
  writer.config()["mlp_only_layers"] = std::move(dense);
}

// Positions turn heads only where the file says that their scaling was trained, or nothing.
void WriteGgufGraniteHybrid(GgufConfigWriter& writer) {
  writer.VariesByLayer("attention.head_count_kv");
  WriteGgufGranite(writer);
  json& config = writer.config();
  config["attention_bias"] = !writer.LayersWith("attn_q.bias").empty();
  config["layer_types"] =
      KindsOf(writer, {{"ssm_out.weight", "mamba"}, {"attn_q.weight", "attention"}});
  writer.CopyInt("mamba_n_heads", "ssm.time_step_rank");
  writer.CopyInt("mamba_n_groups", "ssm.group_count");
  writer.CopyInt("mamba_d_state", "ssm.state_size");
  writer.CopyInt("mamba_d_conv", "ssm.conv_kernel");
  config["mamba_d_head"] = ValueDim(writer);
  config["mamba_conv_bias"] = HasConvBias(writer);
  config["position_embedding_type"] =
      writer.Bool("rope.scaling.finetuned").value_or(true) ? "rope" : "nope";
  const int64_t experts = writer.Int("expert_count").value_or(0);
  config["num_local_experts"] = experts;
  if (experts > 0) {
    writer.CopyInt("num_experts_per_tok", "expert_used_count");
    writer.CopyInt("intermediate_size", "expert_feed_forward_length");
    writer.CopyInt("shared_intermediate_size", "expert_shared_feed_forward_length");
  } else {
    writer.CopyInt("shared_intermediate_size", "feed_forward_length");
  }
}

void WriteGgufNemotronH(GgufConfigWriter& writer) {
  writer.VariesByLayer("attention.head_count_kv");
  writer.VariesByLayer("feed_forward_length");
  writer.SetSizes();
  json& config = writer.config();
  writer.CopyNumber("layer_norm_epsilon", "attention.layer_norm_rms_epsilon");
  config["layers_block_type"] = KindsOf(writer, {{"ssm_out.weight", "mamba"},
                                                 {"attn_q.weight", "attention"},
                                                 {"ffn_gate_inp.weight", "moe"},
                                                 {"ffn_up.weight", "mlp"}});
  writer.CopyInt("mamba_num_heads", "ssm.time_step_rank");
  writer.CopyInt("n_groups", "ssm.group_count");
  writer.CopyInt("ssm_state_size", "ssm.state_size");
  writer.CopyInt("conv_kernel", "ssm.conv_kernel");
  config["mamba_head_dim"] = ValueDim(writer);
  config["use_conv_bias"] = HasConvBias(writer);
  if (writer.Int("expert_count").value_or(0) == 0) return;
  writer.CopyInt("n_routed_experts", "expert_count");
  writer.CopyInt("num_experts_per_tok", "expert_used_count");
  writer.CopyInt("moe_intermediate_size", "expert_feed_forward_length");
  writer.CopyInt("moe_shared_expert_intermediate_size", "expert_shared_feed_forward_length");
  writer.CopyBool("norm_topk_prob", "expert_weights_norm");
  writer.CopyNumber("routed_scaling_factor", "expert_weights_scale");
  config["n_group"] = std::max<int64_t>(writer.Int("expert_group_count").value_or(1), 1);
  config["topk_group"] = std::max<int64_t>(writer.Int("expert_group_used_count").value_or(1), 1);
  writer.CopyInt("moe_latent_size", "moe_latent_size");
}

}  // namespace sluice
