#include "services/model/tensor_roles.h"

#include "kernels/check.h"

namespace sluice {
namespace {

bool HasTensor(LayerTensor tensor, const ModelConfig& config) {
  switch (tensor) {
    case LayerTensor::kGate:
      return config.gated_mlp;
    case LayerTensor::kQBias:
    case LayerTensor::kKBias:
    case LayerTensor::kVBias:
      return config.qkv_bias;
    case LayerTensor::kOBias:
      return config.o_bias;
    case LayerTensor::kGateBias:
      return config.mlp_bias && config.gated_mlp;
    case LayerTensor::kUpBias:
    case LayerTensor::kDownBias:
      return config.mlp_bias;
    case LayerTensor::kInputNormBias:
    case LayerTensor::kPostAttentionNormBias:
      return config.norm_bias;
    case LayerTensor::kQNorm:
    case LayerTensor::kKNorm:
      return config.qk_norm;
    default:
      return true;
  }
}

bool HasTensor(ModelTensor tensor, const ModelConfig& config) {
  switch (tensor) {
    case ModelTensor::kPositions:
      return config.position == PositionKind::kLearned;
    case ModelTensor::kFinalNormBias:
      return config.norm_bias;
    default:
      return true;
  }
}

template <typename Tensor, int kCount>
std::vector<Tensor> TensorsOf(const ModelConfig& config) {
  std::vector<Tensor> tensors;
  for (int index = 0; index < kCount; ++index) {
    const auto tensor = static_cast<Tensor>(index);
    if (HasTensor(tensor, config)) tensors.push_back(tensor);
  }
  return tensors;
}

IndexRange Scaled(IndexRange range, int64_t factor) {
  return {range.begin * factor, range.end * factor};
}

}  // namespace

std::vector<LayerTensor> LayerTensors(const ModelConfig& config) {
  return TensorsOf<LayerTensor, kNumLayerTensors>(config);
}

std::vector<ModelTensor> ModelTensors(const ModelConfig& config) {
  return TensorsOf<ModelTensor, kNumModelTensors>(config);
}

MatrixShape ShapeOf(LayerTensor tensor, const ModelConfig& config) {
  const int64_t hidden = config.hidden_size;
  const int64_t mlp = config.intermediate_size;
  switch (tensor) {
    case LayerTensor::kInputNorm:
    case LayerTensor::kPostAttentionNorm:
    case LayerTensor::kInputNormBias:
    case LayerTensor::kPostAttentionNormBias:
    case LayerTensor::kOBias:
    case LayerTensor::kDownBias:
      return {hidden, 1};
    case LayerTensor::kQNorm:
    case LayerTensor::kKNorm:
      return {config.head_dim, 1};
    case LayerTensor::kQ:
      return {config.query_width(), hidden};
    case LayerTensor::kK:
    case LayerTensor::kV:
      return {config.kv_width(), hidden};
    case LayerTensor::kO:
      return {hidden, config.query_width()};
    case LayerTensor::kGate:
    case LayerTensor::kUp:
      return {mlp, hidden};
    case LayerTensor::kDown:
      return {hidden, mlp};
    case LayerTensor::kQBias:
      return {config.query_width(), 1};
    case LayerTensor::kKBias:
    case LayerTensor::kVBias:
      return {config.kv_width(), 1};
    case LayerTensor::kGateBias:
    case LayerTensor::kUpBias:
      return {mlp, 1};
  }
  SLUICE_CHECK(false);
  return {};
}

MatrixShape ShapeOf(ModelTensor tensor, const ModelConfig& config) {
  switch (tensor) {
    case ModelTensor::kFinalNorm:
    case ModelTensor::kFinalNormBias:
      return {config.hidden_size, 1};
    case ModelTensor::kPositions:
      return {config.max_positions, config.hidden_size};
    case ModelTensor::kEmbedding:
    case ModelTensor::kHead:
      return {config.vocab_size, config.hidden_size};
  }
  SLUICE_CHECK(false);
  return {};
}

TensorSlice SliceOf(LayerTensor tensor, const ModelConfig& config, const ShardPlan& plan) {
  TensorSlice slice = WholeOf(ShapeOf(tensor, config));
  switch (tensor) {
    case LayerTensor::kQ:
    case LayerTensor::kQBias:
      slice.rows = Scaled(plan.heads, config.head_dim);
      break;
    case LayerTensor::kK:
    case LayerTensor::kV:
    case LayerTensor::kKBias:
    case LayerTensor::kVBias:
      slice.rows = Scaled(plan.kv_heads, config.head_dim);
      break;
    case LayerTensor::kO:
      slice.columns = Scaled(plan.heads, config.head_dim);
      break;
    case LayerTensor::kGate:
    case LayerTensor::kUp:
    case LayerTensor::kGateBias:
    case LayerTensor::kUpBias:
      slice.rows = plan.mlp_columns;
      break;
    case LayerTensor::kDown:
      slice.columns = plan.mlp_columns;
      break;
    case LayerTensor::kInputNorm:
    case LayerTensor::kPostAttentionNorm:
    case LayerTensor::kInputNormBias:
    case LayerTensor::kPostAttentionNormBias:
    case LayerTensor::kQNorm:
    case LayerTensor::kKNorm:
    case LayerTensor::kOBias:
    case LayerTensor::kDownBias:
      break;
  }
  return slice;
}

}  // namespace sluice
