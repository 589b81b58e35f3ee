#include "services/model/gguf_names.h"

#include <algorithm>
#include <iterator>

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
    .mlp_norm = "ffn_norm",
    .gate = "ffn_gate",
    .up = "ffn_up",
    .down = "ffn_down",
};

constexpr TensorNames kPairedRows = [] {
  TensorNames names = kPlain;
  names.paired_rows = true;
  return names;
}();

constexpr TensorNames kFusedAttention = [] {
  TensorNames names = kPlain;
  names.q = names.k = names.v = "attn_qkv";
  names.qkv = Fusion::kStacked;
  return names;
}();

// Gate and up are one below the other as `ffn_up`.
constexpr TensorNames kFused = [] {
  TensorNames names = kFusedAttention;
  names.gate = "ffn_up";
  names.gate_up = Fusion::kStacked;
  return names;
}();

constexpr const char* kPairedFamilies[] = {"llama", "mistral", "smollm3"};

}  // namespace

const TensorNames& GgufTensorNames(const ModelConfig& config, const Checkpoint& checkpoint) {
  if (checkpoint.Has("blk.0.attn_qkv.weight")) {
    return config.model_type == "phi3" ? kFused : kFusedAttention;
  }
  const bool is_paired = std::find(std::begin(kPairedFamilies), std::end(kPairedFamilies),
                                   config.model_type) != std::end(kPairedFamilies);
  return is_paired ? kPairedRows : kPlain;
}

}  // namespace sluice
