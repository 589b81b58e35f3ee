#include "services/model/device_check.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

// What GPUs lack of a layer, or "".
std::string LackedOf(const LayerSpec& layer) {
  const AttentionSpec& attention = layer.attention;
  if (attention.qk_norm && attention.qk_norm_kind == QkNormKind::kWholeRms) {
    return "norms of queries and keys over all heads";
  }
  if (attention.qk_norm && attention.qk_norm_kind == QkNormKind::kOwnHeadLayer) {
    return "norms of queries and keys with weights for each head";
  }
  if (attention.latent.has_value()) return "latents in place of keys and values";
  if (attention.recurrent.has_value()) return "states in place of keys and values";
  const DenseMlpSpec* const dense = std::get_if<DenseMlpSpec>(&layer.mlp);
  if (dense != nullptr && dense->squared) return "squared activations";
  if (attention.output_gate) return "gates of what attention gives";
  if (layer.reads != LayerSpec::Reads::kText) return "layers of a source, or attention to one";
  if (attention.ahead > 0) return "attention to later positions";
  if (attention.sinks) return "attention sinks";
  if (attention.chunk > 0) return "chunks of attention";
  if (attention.clip > 0) return "clamped queries, keys and values";
  if (attention.value_norm) return "norms of values";
  if (attention.head_dim > 0 || attention.num_kv_heads > 0) return "layers with heads of their own";
  if (attention.kv_source >= 0) return "layers that share keys and values";
  if (layer.side.has_value()) return "embeddings for each layer";
  if (layer.output_factor) return "layers with a factor of what leaves them";
  if (MixtureOf(layer) != nullptr) return "mixtures of experts";
  const LayerNorms& norms = layer.norms;
  const bool mlp_reads_norm = norms.before_mlp || layer.parallel_residual;
  if (!norms.before_attention || !mlp_reads_norm) return "layers without a norm of what they read";
  return "";
}

}  // namespace

absl::Status CheckGpuComputes(const ModelConfig& config) {
  for (const LayerSpec& layer : config.layers) {
    const std::string lacked = LackedOf(layer);
    if (lacked.empty()) continue;
    return absl::UnimplementedError(absl::StrCat("model_type \"", config.model_type, "\" has ",
                                                 lacked,
                                                 ", which are not computed on GPUs; accepted: "
                                                 "--device cpu"));
  }
  return absl::OkStatus();
}

}  // namespace sluice
