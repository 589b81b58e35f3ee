// Rules for the format of each tensor of a model. Pure functions of the configuration, so that
// every rank, and a file that was quantised beforehand, agree.
#pragma once

#include "kernels/weight_format.h"
#include "services/model/model_config.h"
#include "services/model/tensor_roles.h"

namespace sluice {

// The format to keep a tensor in where `wanted` was asked for:
//
//                         F32    BF16   INT8   INT4   FP8
//   projections           F32    BF16   INT8   INT4   FP8    of decoder layers
//   LM head               F32    BF16   INT8   INT6   FP8    as INT4 it would cost more than all
//                                                            else: docs/weight_formats.md
//   embeddings, positions F32    BF16   BF16   BF16   BF16   a few rows a step are read, none
//                                                            multiplied
//   norms, biases         F32    F32    F32    F32    F32
//   routers               F32    F32    F32    F32    F32    small, and a rounded one chooses
//                                                            other experts
//   convolutions, betas,  F32    F32    F32    F32    F32    small; those of states in place of keys
//   decays
//
// The map from latents to keys and values (kKvB) is BF16 where a quantised format was wanted:
// attention multiplies one half of it transposed, across the groups that share a scale.
//
// A matrix that cannot be cut into groups of inputs that share a scale is kept as BF16 where a
// quantised format was wanted. What counts are the runs of K that the reduction tree of
// shard_plan.h adds up: a rank holds some of them, and none may begin within a group. They depend
// on the model alone, not on the number of ranks.
//
// A matrix of a format with zero points is kept in smaller groups first, and where there are none as
// F32, so that nothing is lost.
//
// The head of a model that others quantised is BF16 where their format was wanted: they leave it
// alone. What their files hold in another way is kept as config.quantization->exceptions say, which
// may be an embedding with zero points, too.
WeightFormat FormatOf(TensorId tensor, const ModelConfig& config, WeightFormat wanted);

}  // namespace sluice
