#include "services/model/tensor_layout.h"

#include <algorithm>
#include <cstring>
#include <initializer_list>

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
      if (names.head_bias != nullptr) return {names.head_bias, ""};
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
    case TensorRole::kQGate:
      return {names.q, kWeightSuffix};
    case TensorRole::kRecurrentQ:
    case TensorRole::kRecurrentK:
    case TensorRole::kRecurrentV:
      return {names.recurrent_qkv, kWeightSuffix};
    case TensorRole::kRecurrentGate:
      return {names.recurrent_gate, kWeightSuffix};
    case TensorRole::kBeta:
      return {names.beta, kWeightSuffix};
    case TensorRole::kDecay:
      return {names.decay, kWeightSuffix};
    case TensorRole::kConvQ:
    case TensorRole::kConvK:
    case TensorRole::kConvV:
      return {names.conv, kWeightSuffix};
    case TensorRole::kConvQBias:
    case TensorRole::kConvKBias:
    case TensorRole::kConvVBias:
      return {names.conv, kBiasSuffix};
    case TensorRole::kDecayBias:
      return {names.decay_bias, ""};
    case TensorRole::kLogRate:
      return {names.log_rate, ""};
    case TensorRole::kSkip:
      return {names.skip, ""};
    case TensorRole::kRecurrentNorm:
      return {names.recurrent_norm, kWeightSuffix};
    case TensorRole::kRecurrentOut:
      return {names.recurrent_out, kWeightSuffix};
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
    case TensorRole::kTokenTypes:
      return {names.token_types, kWeightSuffix};
    case TensorRole::kEmbeddingNorm:
      return {names.embedding_norm, kWeightSuffix};
    case TensorRole::kEmbeddingNormBias:
      return {names.embedding_norm, kBiasSuffix};
    case TensorRole::kAttentionPostNormBias:
      return {names.attention_post_norm, kBiasSuffix};
    case TensorRole::kMlpPostNormBias:
      return {names.mlp_post_norm, kBiasSuffix};
    case TensorRole::kSourcePositions:
      return {names.source_positions, kWeightSuffix};
    case TensorRole::kSourceEmbeddingNorm:
      return {names.source_embedding_norm, kWeightSuffix};
    case TensorRole::kSourceEmbeddingNormBias:
      return {names.source_embedding_norm, kBiasSuffix};
    case TensorRole::kRelativeBias:
      return {names.relative_bias, kWeightSuffix};
    case TensorRole::kLeavingNorm:
      return {names.leaving_norm, kWeightSuffix};
    case TensorRole::kLeavingNormBias:
      return {names.leaving_norm, kBiasSuffix};
    case TensorRole::kCrossNorm:
      return {names.cross_norm, kWeightSuffix};
    case TensorRole::kCrossNormBias:
      return {names.cross_norm, kBiasSuffix};
    case TensorRole::kCrossPostNorm:
      return {names.cross_post_norm, kWeightSuffix};
    case TensorRole::kCrossPostNormBias:
      return {names.cross_post_norm, kBiasSuffix};
    case TensorRole::kCrossQ:
      return {names.cross_q, kWeightSuffix};
    case TensorRole::kCrossK:
      return {names.cross_k, kWeightSuffix};
    case TensorRole::kCrossV:
      return {names.cross_v, kWeightSuffix};
    case TensorRole::kCrossO:
      return {names.cross_o, kWeightSuffix};
    case TensorRole::kCrossQBias:
      return {names.cross_q, kBiasSuffix};
    case TensorRole::kCrossKBias:
      return {names.cross_k, kBiasSuffix};
    case TensorRole::kCrossVBias:
      return {names.cross_v, kBiasSuffix};
    case TensorRole::kCrossOBias:
      return {names.cross_o, kBiasSuffix};
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

// The parts of a fused tensor one below the other, or those of each of several units.
FusedRows PartOfUnits(int64_t units, std::initializer_list<int64_t> rows, size_t part) {
  FusedRows fused{.fusion = Fusion::kStacked};
  for (size_t i = 0; i < rows.size(); ++i) {
    const int64_t of_unit = rows.begin()[i] / units;
    if (i < part) fused.first_row += of_unit;
    if (i == part) fused.run = of_unit;
    fused.stride += of_unit;
  }
  fused.num_rows = fused.stride * units;
  return fused;
}

// REQUIRES: a role of layers with states alone.
FusedRows FusedRecurrent(TensorRole role, const RecurrentSpec& recurrent, RecurrentFusion fusion) {
  const int64_t keys = recurrent.keys_width(), values = recurrent.values_width();
  const int64_t heads = recurrent.num_heads, units = recurrent.num_key_heads;
  const bool is_mamba = fusion == RecurrentFusion::kMamba;
  const auto channels = [&](size_t of_mamba, size_t otherwise) {
    return is_mamba ? PartOfUnits(1, {values, keys, keys}, of_mamba)
                    : PartOfUnits(1, {keys, keys, values}, otherwise);
  };
  // Of mamba, which have all in one.
  const auto projection = [&](size_t part) {
    return PartOfUnits(1, {values, values, keys, keys, heads}, part);
  };
  const auto of_key_head = [&](size_t part) {
    return PartOfUnits(units, {keys, keys, values, values}, part);
  };
  switch (role) {
    case TensorRole::kConvQ:
    case TensorRole::kConvQBias:
      return channels(2, 0);
    case TensorRole::kConvK:
    case TensorRole::kConvKBias:
      return channels(1, 1);
    case TensorRole::kConvV:
    case TensorRole::kConvVBias:
      return channels(0, 2);
    default:
      break;
  }
  const bool by_head = fusion == RecurrentFusion::kByKeyHead;
  const bool has_pairs = by_head || fusion == RecurrentFusion::kQkvPairs;
  switch (role) {
    case TensorRole::kRecurrentQ:
      return is_mamba ? projection(3) : by_head ? of_key_head(0) : channels(0, 0);
    case TensorRole::kRecurrentK:
      return is_mamba ? projection(2) : by_head ? of_key_head(1) : channels(0, 1);
    case TensorRole::kRecurrentV:
      return is_mamba ? projection(1) : by_head ? of_key_head(2) : channels(0, 2);
    case TensorRole::kRecurrentGate:
      return is_mamba ? projection(0) : by_head ? of_key_head(3) : FusedRows{};
    case TensorRole::kBeta:
      return has_pairs ? PartOfUnits(units, {heads, heads}, 0) : FusedRows{};
    case TensorRole::kDecay:
      return is_mamba    ? projection(4)
             : has_pairs ? PartOfUnits(units, {heads, heads}, 1)
                         : FusedRows{};
    default:
      return {};
  }
}

// Of a projection with queries and gates side by side, head by head.
FusedRows FusedGate(int layer, const ModelConfig& config, size_t part) {
  const int64_t width = config.query_width(layer);
  return PartOfUnits(config.num_heads, {width, width}, part);
}

}  // namespace

FusedRows FusedRowsOf(TensorId tensor, const ModelConfig& config, const TensorNames& names) {
  if (tensor.expert >= 0) return {};
  const int layer = tensor.layer;
  const int64_t query = layer < 0 ? 0 : config.query_width(layer);
  const int64_t kv = layer < 0 ? 0 : config.kv_width(layer);
  if (tensor.role >= TensorRole::kRecurrentQ && tensor.role <= TensorRole::kRecurrentOut) {
    return FusedRecurrent(tensor.role, *config.recurrent(), names.recurrent);
  }
  switch (tensor.role) {
    case TensorRole::kQGate:
      return FusedGate(layer, config, 1);
    case TensorRole::kQ:
      if (config.layers[tensor.layer].attention.output_gate) return FusedGate(layer, config, 0);
      return FusedQkv(names.qkv, config, layer, 0, query);
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
