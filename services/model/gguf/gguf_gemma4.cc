#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/model/gguf/gguf_architectures.h"

namespace sluice {
namespace {

using nlohmann::json;

// Of the layers with a window, or without, the numbers in a list with one for each layer, or the only
// one; 0 where there is none.
int64_t OfKind(const std::vector<int64_t>& numbers, const std::vector<int64_t>& windows,
               bool windowed) {
  if (numbers.size() == 1) return numbers.front();
  for (size_t layer = 0; layer < std::min(numbers.size(), windows.size()); ++layer) {
    if ((windows[layer] != 0) == windowed) return numbers[layer];
  }
  return 0;
}

}  // namespace

// Heads are of two sizes. Of those that see everything the first elements turn, as many as the divisors
// of frequencies are 1; the others are divided away.
void WriteGgufGemma4(GgufConfigWriter& writer) {
  writer.VariesByLayer("attention.head_count_kv");
  writer.VariesByLayer("feed_forward_length");
  writer.SetSizes();
  writer.SetWindow();
  writer.CopyNumber("rms_norm_eps", "attention.layer_norm_rms_epsilon");
  writer.CopyNumber("final_logit_softcapping", "final_logit_softcapping");
  json& config = writer.config();
  const std::vector<int64_t> windows = writer.Ints("attention.sliding_window_pattern");
  if (windows.size() != static_cast<size_t>(writer.NumLayers())) {
    return writer.fields().Fail(absl::StrCat("gemma4.attention.sliding_window_pattern has ",
                                             windows.size(), " entries; accepted: one for each of ",
                                             writer.NumLayers(), " layers"));
  }
  json types = json::array();
  for (const int64_t window : windows) {
    types.push_back(window != 0 ? "sliding_attention" : "full_attention");
  }
  config["layer_types"] = std::move(types);
  config["global_head_dim"] = writer.HeadDim();
  writer.CopyInt("head_dim", "attention.key_length_swa");
  const std::vector<int64_t> kv_heads = writer.Ints("attention.head_count_kv");
  config["num_key_value_heads"] = OfKind(kv_heads, windows, /*windowed=*/true);
  config["num_global_key_value_heads"] = OfKind(kv_heads, windows, /*windowed=*/false);
  const int64_t shared = writer.Int("attention.shared_kv_layers").value_or(0);
  config["num_kv_shared_layers"] = shared;
  bool keys_as_values = false;
  for (int64_t layer = 0; layer + shared < static_cast<int64_t>(windows.size()); ++layer) {
    keys_as_values =
        keys_as_values || !writer.HasTensor(absl::StrCat("blk.", layer, ".attn_v.weight"));
  }
  config["attention_k_eq_v"] = keys_as_values;
  const std::vector<int64_t> widths = writer.Ints("feed_forward_length");
  if (!widths.empty()) {
    config["intermediate_size"] = std::ranges::min(widths);
    config["use_double_wide_mlp"] = std::ranges::min(widths) != std::ranges::max(widths);
  }
  config["hidden_size_per_layer_input"] =
      writer.Int("embedding_length_per_layer_input").value_or(0);
  if (writer.Int("expert_count").value_or(0) > 0) {
    config["enable_moe_block"] = true;
    writer.CopyInt("num_experts", "expert_count");
    writer.CopyInt("top_k_experts", "expert_used_count");
    writer.CopyInt("moe_intermediate_size", "expert_feed_forward_length");
  }
  config["rope_parameters"] = {
      {"full_attention",
       {{"rope_type", "proportional"},
        {"rope_theta", writer.Number("rope.freq_base").value_or(1e6)},
        {"partial_rotary_factor", writer.ShareOfPlainDivisors()}}},
      {"sliding_attention",
       {{"rope_type", "default"},
        {"rope_theta", writer.Number("rope.freq_base_swa").value_or(1e4)}}}};
}

}  // namespace sluice
