// The tensors of a model by role instead of by name: which there are, how large, and which part of
// each a shard holds. Pure functions of the configuration.
#pragma once

#include <cstdint>
#include <vector>

#include "services/model/model_config.h"
#include "services/model/shard_plan.h"
#include "services/model/tensor_slice.h"

namespace sluice {

// A decoder layer's tensors. Projections are [outputs, inputs], row-major: y = W x.
enum class LayerTensor : uint8_t {
  kInputNorm,              // [H], before attention
  kQ,                      // [Nq * D, H]
  kK,                      // [Nkv * D, H]
  kV,                      // [Nkv * D, H]
  kO,                      // [H, Nq * D]
  kPostAttentionNorm,      // [H], before the MLP
  kGate,                   // [intermediate, H]
  kUp,                     // [intermediate, H]
  kDown,                   // [H, intermediate]
  kQBias,                  // [Nq * D]
  kKBias,                  // [Nkv * D]
  kVBias,                  // [Nkv * D]
  kOBias,                  // [H]
  kGateBias,               // [intermediate]
  kUpBias,                 // [intermediate]
  kDownBias,               // [H]
  kInputNormBias,          // [H]
  kPostAttentionNormBias,  // [H]
  kQNorm,                  // [D]
  kKNorm,                  // [D]
};
inline constexpr int kNumLayerTensors = 20;

// The tensors outside the layers.
enum class ModelTensor : uint8_t {
  kEmbedding,      // [V, H]
  kFinalNorm,      // [H]
  kHead,           // [V, H]; reads the embedding where the two are tied
  kPositions,      // [max_positions, H], learned
  kFinalNormBias,  // [H]
};
inline constexpr int kNumModelTensors = 5;

// The tensors that a layer of this model has, in the order of the enum.
std::vector<LayerTensor> LayerTensors(const ModelConfig& config);
// The tensors outside the layers that this model has, likewise.
std::vector<ModelTensor> ModelTensors(const ModelConfig& config);

MatrixShape ShapeOf(LayerTensor tensor, const ModelConfig& config);
MatrixShape ShapeOf(ModelTensor tensor, const ModelConfig& config);

// The part of a layer's tensor that the shard of this plan holds: rows of q, k, v, gate and up and
// of their biases, columns of o and down, all of the norms and of the biases of o and down (which
// are added once, after the ranks' sums).
TensorSlice SliceOf(LayerTensor tensor, const ModelConfig& config, const ShardPlan& plan);

}  // namespace sluice
