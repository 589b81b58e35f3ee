#include "services/model/tensor_layout.h"

#include <algorithm>
#include <cstring>

#include "kernels/check.h"

namespace sluice {

TensorName NameIn(const TensorNames& names, TensorId tensor) {
  const bool is_expert = tensor.expert >= 0;
  switch (tensor.role) {
    case TensorRole::kEmbedding:
      return {names.embedding, kWeightSuffix};
    case TensorRole::kPositions:
      return {names.positions, kWeightSuffix};
    case TensorRole::kFinalNorm:
      return {names.final_norm, kWeightSuffix};
    case TensorRole::kFinalNormBias:
      return {names.final_norm, kBiasSuffix};
    case TensorRole::kHead:
      return {names.head, kWeightSuffix};
    case TensorRole::kHeadBias:
      return {names.head, kBiasSuffix};
    case TensorRole::kAttentionNorm:
      return {names.attention_norm, kWeightSuffix};
    case TensorRole::kQ:
      return {names.q, kWeightSuffix};
    case TensorRole::kK:
      return {names.k, kWeightSuffix};
    case TensorRole::kV:
      return {names.v, kWeightSuffix};
    case TensorRole::kO:
      return {names.o, kWeightSuffix};
    case TensorRole::kMlpNorm:
      return {names.mlp_norm, kWeightSuffix};
    case TensorRole::kGate:
      return {is_expert ? names.expert_gate : names.gate, kWeightSuffix};
    case TensorRole::kUp:
      return {is_expert ? names.expert_up : names.up, kWeightSuffix};
    case TensorRole::kDown:
      return {is_expert ? names.expert_down : names.down, kWeightSuffix};
    case TensorRole::kQBias:
      return {names.q, kBiasSuffix};
    case TensorRole::kKBias:
      return {names.k, kBiasSuffix};
    case TensorRole::kVBias:
      return {names.v, kBiasSuffix};
    case TensorRole::kOBias:
      return {names.o, kBiasSuffix};
    case TensorRole::kGateBias:
      return {is_expert ? names.expert_gate : names.gate, kBiasSuffix};
    case TensorRole::kUpBias:
      return {is_expert ? names.expert_up : names.up, kBiasSuffix};
    case TensorRole::kDownBias:
      return {is_expert ? names.expert_down : names.down, kBiasSuffix};
    case TensorRole::kAttentionNormBias:
      return {names.attention_norm, kBiasSuffix};
    case TensorRole::kMlpNormBias:
      return {names.mlp_norm, kBiasSuffix};
    case TensorRole::kQNorm:
      return {names.q_norm, kWeightSuffix};
    case TensorRole::kKNorm:
      return {names.k_norm, kWeightSuffix};
    case TensorRole::kQNormBias:
      return {names.q_norm, kBiasSuffix};
    case TensorRole::kKNormBias:
      return {names.k_norm, kBiasSuffix};
    case TensorRole::kAttentionPostNorm:
      return {names.attention_post_norm, kWeightSuffix};
    case TensorRole::kMlpPostNorm:
      return {names.mlp_post_norm, kWeightSuffix};
    case TensorRole::kRouter:
      return {names.router, kWeightSuffix};
    case TensorRole::kRouterBias:
      return {names.router, kBiasSuffix};
    case TensorRole::kChoiceBias:
      return {names.choice_bias, ""};
    case TensorRole::kSharedGate:
      return {names.shared_gate, kWeightSuffix};
    case TensorRole::kSharedUp:
      return {names.shared_up, kWeightSuffix};
    case TensorRole::kSharedDown:
      return {names.shared_down, kWeightSuffix};
    case TensorRole::kSharedScore:
      return {names.shared_score, kWeightSuffix};
    case TensorRole::kSinks:
      return {names.sinks, ""};
    case TensorRole::kQA:
      return {names.q_a, kWeightSuffix};
    case TensorRole::kQANorm:
      return {names.q_a_norm, kWeightSuffix};
    case TensorRole::kQB:
      return {names.q_b, kWeightSuffix};
    case TensorRole::kKvA:
      return {names.kv_a, kWeightSuffix};
    case TensorRole::kKvANorm:
      return {names.kv_a_norm, kWeightSuffix};
    case TensorRole::kKvB:
      return {names.kv_b, kWeightSuffix};
    case TensorRole::kQABias:
      return {names.q_a, kBiasSuffix};
    case TensorRole::kKvABias:
      return {names.kv_a, kBiasSuffix};
    case TensorRole::kSideEmbedding:
      return {names.side_embedding, kWeightSuffix};
    case TensorRole::kSideProjection:
      return {names.side_projection, kWeightSuffix};
    case TensorRole::kSideProjectionNorm:
      return {names.side_projection_norm, kWeightSuffix};
    case TensorRole::kSideGate:
      return {names.side_gate, kWeightSuffix};
    case TensorRole::kSideOut:
      return {names.side_out, kWeightSuffix};
    case TensorRole::kSideNorm:
      return {names.side_norm, kWeightSuffix};
    case TensorRole::kMixtureNorm:
      return {names.mixture_norm, kWeightSuffix};
    case TensorRole::kBesidePostNorm:
      return {names.beside_post_norm, kWeightSuffix};
    case TensorRole::kMixturePostNorm:
      return {names.mixture_post_norm, kWeightSuffix};
    case TensorRole::kRouterScale:
      return {names.router_scale, ""};
    case TensorRole::kExpertFactors:
      return {names.expert_factors, ""};
    case TensorRole::kOutputFactor:
      return {names.output_factor, ""};
  }
  SLUICE_CHECK(false);
  return {};
}

namespace {

// Rows [first, first + rows) of queries, keys and values one below the other; where they are fused
// by head, the part of them that belongs to each KV head.
FusedRows FusedQkv(Fusion fusion, const ModelConfig& config, int layer, int64_t first,
                   int64_t rows) {
  const int64_t all = config.query_width(layer) + int64_t{2} * config.kv_width(layer);
  const int64_t units = fusion == Fusion::kByHead ? config.kv_heads_of(layer) : 1;
  return {fusion, first / units, all, rows / units, all / units};
}

}  // namespace

FusedRows FusedRowsOf(TensorId tensor, const ModelConfig& config, const TensorNames& names) {
  if (tensor.expert >= 0) return {};
  const int layer = tensor.layer;
  const int64_t query = layer < 0 ? 0 : config.query_width(layer);
  const int64_t kv = layer < 0 ? 0 : config.kv_width(layer);
  switch (tensor.role) {
    case TensorRole::kQ:
    case TensorRole::kQBias:
      return FusedQkv(names.qkv, config, layer, 0, query);
    case TensorRole::kK:
    case TensorRole::kKBias:
      return FusedQkv(names.qkv, config, layer, query, kv);
    case TensorRole::kV:
    case TensorRole::kVBias:
      return FusedQkv(names.qkv, config, layer, query + kv, kv);
    case TensorRole::kGate:
    case TensorRole::kGateBias:
    case TensorRole::kSharedGate: {
      const int64_t width = MlpWidthOf(tensor, config);
      return {names.gate_up, 0, 2 * width, width, 2 * width};
    }
    case TensorRole::kUp:
    case TensorRole::kUpBias:
    case TensorRole::kSharedUp: {
      const int64_t width = MlpWidthOf(tensor, config);
      return {names.gate_up, width, 2 * width, width, 2 * width};
    }
    default:
      return {};
  }
}

void Transpose(absl::Span<const std::byte> in, MatrixShape shape, size_t element_size,
               absl::Span<std::byte> out) {
  // Squares that fit the first-level cache in both directions.
  constexpr int64_t kSide = 32;
  const auto element = [&](int64_t index) { return static_cast<size_t>(index) * element_size; };
  for (int64_t row0 = 0; row0 < shape.rows; row0 += kSide) {
    for (int64_t column0 = 0; column0 < shape.columns; column0 += kSide) {
      for (int64_t row = row0; row < std::min(row0 + kSide, shape.rows); ++row) {
        for (int64_t column = column0; column < std::min(column0 + kSide, shape.columns);
             ++column) {
          std::memcpy(&out[element(column * shape.rows + row)],
                      &in[element(row * shape.columns + column)], element_size);
        }
      }
    }
  }
}

}  // namespace sluice
