// The tensors of a model by role instead of by name: which there are, how large, and which part of
// each a shard holds. Pure functions of the configuration.
#pragma once

#include <vector>

#include "services/model/model_config.h"
#include "services/model/shard_plan.h"
#include "services/model/tensor_id.h"
#include "services/model/tensor_slice.h"

namespace sluice {

// Whether the model has the tensor. REQUIRES: a layer of the model where the role is in a layer.
bool HasTensor(TensorId tensor, const ModelConfig& config);

// The tensors of one layer, and those outside the layers, in the order of the roles.
std::vector<TensorId> TensorsOfLayer(int layer, const ModelConfig& config);
std::vector<TensorId> TensorsOutsideLayers(const ModelConfig& config);
// All of them: those outside the layers, then layer by layer.
std::vector<TensorId> AllTensors(const ModelConfig& config);

MatrixShape ShapeOf(TensorId tensor, const ModelConfig& config);

// F: the columns of the MLP that the tensor belongs to. REQUIRES: one of a layer.
int MlpWidthOf(TensorId tensor, const ModelConfig& config);

// The part of a tensor that the shard of this plan holds: rows of q, k, v, gate and up and of their
// biases, columns of o and down, all of the norms and of the biases of o and down (which are added
// once, after the ranks' sums). Of latent attention rows of q_b and kv_b, all that makes the
// latents.
TensorSlice SliceOf(TensorId tensor, const ModelConfig& config, const ShardPlan& plan);

}  // namespace sluice
