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

// Bytes of the keys and values of one position: in one shard, and over all layers and heads. Without
// states. Latents count once in the latter, though every rank keeps them. REQUIRES: IsKvType(dtype).
uint64_t KvBytesPerPosition(const ModelConfig& config, const ShardPlan& plan, DType dtype);
uint64_t KvBytesPerPosition(const ModelConfig& config, DType dtype);
// Bytes of one slot for the states of recurrent layers: in one shard, and over all of them. 0 where
// no layer is recurrent.
uint64_t StateSlotBytes(const ModelConfig& config, const ShardPlan& plan);
uint64_t StateSlotBytes(const ModelConfig& config);

// What memory for keys, values and states holds.
struct KvRoom {
  uint64_t num_blocks = 0;
  uint64_t num_state_slots = 0;
};
// Blocks and slots within `bytes`, one of each of so many bytes. `num_state_slots` as asked for; 0:
// half of the memory is for slots, at least 2 of them, and not more than there are blocks. Without
// slots where they take no bytes. No blocks where the slots leave no room for one.
// REQUIRES: bytes_per_block >= 1.
KvRoom DivideKvBytes(uint64_t bytes, uint64_t bytes_per_block, uint64_t bytes_per_slot,
                     uint64_t num_state_slots);

// How many of `num_ranks` ranks keep the same keys and values: all of them with latent attention.
int KvCopies(const ModelConfig& config, int num_ranks);

}  // namespace sluice
