// Memory of a model in each process, computed from its configuration. Pure functions. What a
// process keeps is what status reports of it, or more: INT4 by up to a twentieth and INT6 by up to
// a third, which some devices keep in fewer bits. Programs and what a step computes with come on
// top.
#pragma once

#include <cstdint>

#include "kernels/dtype.h"
#include "kernels/weight_format.h"
#include "services/model/model_config.h"
#include "services/model/shard_plan.h"

namespace sluice {

// Numbers in all matrices and vectors, those that are shared counted once.
uint64_t NumParameters(const ModelConfig& config);

// Whether the embedding holds a tensor outside the layers, and not the sampler.
bool IsOfTheEmbedding(TensorId tensor);

// Bytes of weights, kept in what FormatOf (weight_rule.h) says where `wanted` was asked for.
uint64_t EmbeddingBytes(const ModelConfig& config, WeightFormat wanted);
uint64_t ShardBytes(const ModelConfig& config, const ShardPlan& plan, WeightFormat wanted);
uint64_t HeadBytes(const ModelConfig& config, WeightFormat wanted);

// Bytes of the keys and values of one position: in one shard, and over all layers and heads.
// Latents count once in the latter, though every rank keeps them. REQUIRES: IsKvType(dtype).
uint64_t KvBytesPerPosition(const ModelConfig& config, const ShardPlan& plan, DType dtype);
uint64_t KvBytesPerPosition(const ModelConfig& config, DType dtype);
// How many of `num_ranks` ranks keep the same keys and values: all of them with latent attention.
int KvCopies(const ModelConfig& config, int num_ranks);

}  // namespace sluice
