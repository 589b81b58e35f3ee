#include "services/model/tensor_layout.h"

#include <algorithm>
#include <cstring>

#include "kernels/check.h"

namespace sluice {

TensorName NameIn(const TensorNames& names, LayerTensor tensor) {
  switch (tensor) {
    case LayerTensor::kInputNorm:
      return {names.input_norm, kWeightSuffix};
    case LayerTensor::kQ:
      return {names.q, kWeightSuffix};
    case LayerTensor::kK:
      return {names.k, kWeightSuffix};
    case LayerTensor::kV:
      return {names.v, kWeightSuffix};
    case LayerTensor::kO:
      return {names.o, kWeightSuffix};
    case LayerTensor::kPostAttentionNorm:
      return {names.post_attention_norm, kWeightSuffix};
    case LayerTensor::kGate:
      return {names.gate, kWeightSuffix};
    case LayerTensor::kUp:
      return {names.up, kWeightSuffix};
    case LayerTensor::kDown:
      return {names.down, kWeightSuffix};
    case LayerTensor::kQBias:
      return {names.q, kBiasSuffix};
    case LayerTensor::kKBias:
      return {names.k, kBiasSuffix};
    case LayerTensor::kVBias:
      return {names.v, kBiasSuffix};
    case LayerTensor::kOBias:
      return {names.o, kBiasSuffix};
    case LayerTensor::kGateBias:
      return {names.gate, kBiasSuffix};
    case LayerTensor::kUpBias:
      return {names.up, kBiasSuffix};
    case LayerTensor::kDownBias:
      return {names.down, kBiasSuffix};
    case LayerTensor::kInputNormBias:
      return {names.input_norm, kBiasSuffix};
    case LayerTensor::kPostAttentionNormBias:
      return {names.post_attention_norm, kBiasSuffix};
    case LayerTensor::kQNorm:
      return {names.q_norm, kWeightSuffix};
    case LayerTensor::kKNorm:
      return {names.k_norm, kWeightSuffix};
  }
  SLUICE_CHECK(false);
  return {};
}

FusedRows FusedRowsOf(LayerTensor tensor, const ModelConfig& config, const TensorNames& names) {
  const int64_t query = config.query_width(), kv = config.kv_width();
  const int64_t mlp = config.intermediate_size;
  switch (tensor) {
    case LayerTensor::kQ:
    case LayerTensor::kQBias:
      return {names.qkv, 0, 3, 0, query + 2 * kv};
    case LayerTensor::kK:
    case LayerTensor::kKBias:
      return {names.qkv, 1, 3, query, query + 2 * kv};
    case LayerTensor::kV:
    case LayerTensor::kVBias:
      return {names.qkv, 2, 3, query + kv, query + 2 * kv};
    case LayerTensor::kGate:
    case LayerTensor::kGateBias:
      return {names.gate_up, 0, 2, 0, 2 * mlp};
    case LayerTensor::kUp:
    case LayerTensor::kUpBias:
      return {names.gate_up, 1, 2, mlp, 2 * mlp};
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
