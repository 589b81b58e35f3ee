// Where each layer of a shard keeps its keys and values: layers with equal heads share a pool, and
// layers that read those of an earlier one have none. A plain value, a function of the plan alone.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/backend.h"
#include "services/model/model_config.h"
#include "services/model/shard_plan.h"

namespace sluice {

struct KvLayout {
  struct Slot {
    int pool = 0;   // index in `pools`; -1 of layers without keys and values
    int layer = 0;  // in it
  };

  std::vector<KvPoolSpec> pools;  // without a number of blocks; a block is one in each of them
  std::vector<Slot> slots;        // of each layer of the plan

  uint64_t bytes_per_block() const;
};

KvLayout KvLayoutOf(const ModelConfig& config, const ShardPlan& plan, int block_size, DType dtype);

}  // namespace sluice
