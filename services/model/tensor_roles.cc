#include "services/model/tensor_roles.h"

#include <variant>

#include "kernels/check.h"

namespace sluice {
namespace {

// REQUIRES: a role that not every MLP has.
bool HasMlpTensor(TensorRole role, const DenseMlpSpec& mlp) {
  if (role == TensorRole::kGate) return mlp.gated;
  return mlp.bias && (mlp.gated || role != TensorRole::kGateBias);
}

// REQUIRES: a role of attention's projections, or a norm or bias that only latent attention has.
bool HasProjection(TensorRole role, const AttentionSpec& attention) {
  if (!attention.latent.has_value()) {
    return role == TensorRole::kQ || role == TensorRole::kK || role == TensorRole::kV;
  }
  const LatentSpec& latent = *attention.latent;
  switch (role) {
    case TensorRole::kK:
    case TensorRole::kV:
      return false;
    case TensorRole::kQ:
      return latent.query_rank == 0;
    case TensorRole::kQA:
    case TensorRole::kQANorm:
    case TensorRole::kQB:
      return latent.query_rank > 0;
    case TensorRole::kQABias:
      return latent.query_rank > 0 && latent.bias;
    case TensorRole::kKvABias:
      return latent.bias;
    default:
      return true;
  }
}

// Of the roles [begin, end), those that the model has.
std::vector<TensorId> TensorsOfRoles(int begin, int end, int layer, const ModelConfig& config) {
  std::vector<TensorId> tensors;
  for (int role = begin; role < end; ++role) {
    const TensorId tensor{static_cast<TensorRole>(role), layer};
    if (HasTensor(tensor, config)) tensors.push_back(tensor);
  }
  return tensors;
}

IndexRange Scaled(IndexRange range, int64_t factor) {
  return {range.begin * factor, range.end * factor};
}

}  // namespace

bool HasTensor(TensorId tensor, const ModelConfig& config) {
  switch (tensor.role) {
    case TensorRole::kPositions:
      return config.position == PositionKind::kLearned;
    case TensorRole::kFinalNormBias:
    case TensorRole::kAttentionNormBias:
    case TensorRole::kMlpNormBias:
      return config.norm_bias;
    case TensorRole::kQBias:
    case TensorRole::kKBias:
    case TensorRole::kVBias:
      return config.layers[tensor.layer].attention.qkv_bias;
    case TensorRole::kOBias:
      return config.layers[tensor.layer].attention.o_bias;
    case TensorRole::kQNorm:
    case TensorRole::kKNorm:
      return config.layers[tensor.layer].attention.qk_norm;
    case TensorRole::kQ:
    case TensorRole::kK:
    case TensorRole::kV:
    case TensorRole::kQA:
    case TensorRole::kQANorm:
    case TensorRole::kQB:
    case TensorRole::kKvA:
    case TensorRole::kKvANorm:
    case TensorRole::kKvB:
    case TensorRole::kQABias:
    case TensorRole::kKvABias:
      return HasProjection(tensor.role, config.layers[tensor.layer].attention);
    case TensorRole::kGate:
    case TensorRole::kGateBias:
    case TensorRole::kUpBias:
    case TensorRole::kDownBias:
      return std::visit([&](const auto& mlp) { return HasMlpTensor(tensor.role, mlp); },
                        config.layers[tensor.layer].mlp);
    default:
      return true;
  }
}

int MlpWidthOf(TensorId tensor, const ModelConfig& config) {
  return std::visit([](const DenseMlpSpec& mlp) { return mlp.width; },
                    config.layers[tensor.layer].mlp);
}

std::vector<TensorId> TensorsOfLayer(int layer, const ModelConfig& config) {
  return TensorsOfRoles(static_cast<int>(kFirstLayerRole), kNumTensorRoles, layer, config);
}

std::vector<TensorId> TensorsOutsideLayers(const ModelConfig& config) {
  return TensorsOfRoles(0, static_cast<int>(kFirstLayerRole), TensorId().layer, config);
}

std::vector<TensorId> AllTensors(const ModelConfig& config) {
  std::vector<TensorId> tensors = TensorsOutsideLayers(config);
  for (int layer = 0; layer < config.num_layers(); ++layer) {
    const std::vector<TensorId> more = TensorsOfLayer(layer, config);
    tensors.insert(tensors.end(), more.begin(), more.end());
  }
  return tensors;
}

namespace {

// REQUIRES: a role of latent attention alone.
MatrixShape LatentShapeOf(TensorRole role, const ModelConfig& config) {
  const LatentSpec& latent = *config.latent();
  switch (role) {
    case TensorRole::kQA:
      return {latent.query_rank, config.hidden_size};
    case TensorRole::kQANorm:
    case TensorRole::kQABias:
      return {latent.query_rank, 1};
    case TensorRole::kQB:
      return {config.query_width(), latent.query_rank};
    case TensorRole::kKvA:
      return {latent.stored_dim(), config.hidden_size};
    case TensorRole::kKvABias:
      return {latent.stored_dim(), 1};
    case TensorRole::kKvANorm:
      return {latent.rank, 1};
    default:
      SLUICE_CHECK(role == TensorRole::kKvB);
      return {int64_t{config.num_heads} * (latent.nope_dim + latent.value_dim), latent.rank};
  }
}

}  // namespace

MatrixShape ShapeOf(TensorId tensor, const ModelConfig& config) {
  const int64_t hidden = config.hidden_size;
  switch (tensor.role) {
    case TensorRole::kEmbedding:
    case TensorRole::kHead:
      return {config.vocab_size, hidden};
    case TensorRole::kPositions:
      return {config.max_positions, hidden};
    case TensorRole::kFinalNorm:
    case TensorRole::kFinalNormBias:
    case TensorRole::kAttentionNorm:
    case TensorRole::kMlpNorm:
    case TensorRole::kAttentionNormBias:
    case TensorRole::kMlpNormBias:
    case TensorRole::kOBias:
    case TensorRole::kDownBias:
      return {hidden, 1};
    case TensorRole::kQNorm:
    case TensorRole::kKNorm:
      return {config.head_dim, 1};
    case TensorRole::kQ:
      return {config.query_width(), hidden};
    case TensorRole::kK:
    case TensorRole::kV:
      return {config.kv_width(), hidden};
    case TensorRole::kO:
      return {hidden, config.value_width()};
    case TensorRole::kGate:
    case TensorRole::kUp:
      return {MlpWidthOf(tensor, config), hidden};
    case TensorRole::kDown:
      return {hidden, MlpWidthOf(tensor, config)};
    case TensorRole::kQBias:
      return {config.query_width(), 1};
    case TensorRole::kKBias:
    case TensorRole::kVBias:
      return {config.kv_width(), 1};
    case TensorRole::kGateBias:
    case TensorRole::kUpBias:
      return {MlpWidthOf(tensor, config), 1};
    case TensorRole::kQA:
    case TensorRole::kQANorm:
    case TensorRole::kQB:
    case TensorRole::kKvA:
    case TensorRole::kKvANorm:
    case TensorRole::kKvB:
    case TensorRole::kQABias:
    case TensorRole::kKvABias:
      return LatentShapeOf(tensor.role, config);
  }
  SLUICE_CHECK(false);
  return {};
}

TensorSlice SliceOf(TensorId tensor, const ModelConfig& config, const ShardPlan& plan) {
  TensorSlice slice = WholeOf(ShapeOf(tensor, config));
  switch (tensor.role) {
    case TensorRole::kQ:
    case TensorRole::kQB:
    case TensorRole::kQBias:
      slice.rows = Scaled(plan.heads, config.head_dim);
      break;
    case TensorRole::kKvB:
      slice.rows = Scaled(plan.heads, config.latent()->nope_dim + config.latent()->value_dim);
      break;
    case TensorRole::kK:
    case TensorRole::kV:
    case TensorRole::kKBias:
    case TensorRole::kVBias:
      slice.rows = Scaled(plan.kv_heads, config.head_dim);
      break;
    case TensorRole::kO:
      slice.columns = Scaled(plan.heads, config.value_dim());
      break;
    case TensorRole::kGate:
    case TensorRole::kUp:
    case TensorRole::kGateBias:
    case TensorRole::kUpBias:
      slice.rows = plan.MlpOf(MlpWidthOf(tensor, config)).columns;
      break;
    case TensorRole::kDown:
      slice.columns = plan.MlpOf(MlpWidthOf(tensor, config)).columns;
      break;
    default:
      break;
  }
  return slice;
}

}  // namespace sluice
