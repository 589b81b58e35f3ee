// The tensors of a model by role instead of by name: which there are, how large, and which part of
// each a shard holds. Pure functions of the configuration.
#pragma once

#include <vector>

#include "services/model/model_config.h"
#include "services/model/shard_plan.h"
#include "services/model/tensor_id.h"
#include "services/model/tensor_slice.h"

namespace sluice {

// Whether the model has the tensor. REQUIRES: a layer of the model where the role is in a layer, and
// an expert of it, if any.
bool HasTensor(TensorId tensor, const ModelConfig& config);

// The tensors of one layer, and those outside the layers, in the order of the roles.
std::vector<TensorId> TensorsOfLayer(int layer, const ModelConfig& config);
std::vector<TensorId> TensorsOutsideLayers(const ModelConfig& config);
// All of them: those outside the layers, then layer by layer.
std::vector<TensorId> AllTensors(const ModelConfig& config);

MatrixShape ShapeOf(TensorId tensor, const ModelConfig& config);

// F: the columns of the MLP or of the expert that the tensor belongs to. REQUIRES: one of a layer.
int MlpWidthOf(TensorId tensor, const ModelConfig& config);
// The same as a shard of this plan holds it.
MlpPart MlpPartOf(TensorId tensor, const ModelConfig& config, const ShardPlan& plan);

// The part of a tensor that the shard of this plan holds: rows of q, k, v, gate and up and of their
// biases and of norms that have weights for each head, columns of o and down, all of the other
// norms, of routers and of the biases of o and down (which are added once: after the ranks' sums
// or, those of experts, by the first rank). Of latent attention rows
// of q_b and kv_b, and all that makes the latents.
TensorSlice SliceOf(TensorId tensor, const ModelConfig& config, const ShardPlan& plan);

}  // namespace sluice
