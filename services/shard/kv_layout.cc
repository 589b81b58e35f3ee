#include "services/shard/kv_layout.h"

#include <algorithm>

#include "kernels/check.h"

namespace sluice {
namespace {

// Latents are the same on every rank.
KvPoolSpec LatentSpecOf(const LatentSpec& latent) {
  return {.num_kv_heads = 1, .head_dim = latent.stored_dim(), .latent_dim = latent.rank};
}

KvPoolSpec SpecOf(int layer, const ModelConfig& config, const ShardPlan& plan) {
  const auto& latent = config.layers[layer].attention.latent;
  if (latent.has_value()) return LatentSpecOf(*latent);
  return {.num_kv_heads = static_cast<int>(KvHeadsOf(layer, config, plan).size()),
          .head_dim = config.head_dim_of(layer)};
}

// The index of the pool of such heads, which is made where there is none.
int PoolOf(const KvPoolSpec& spec, std::vector<KvPoolSpec>& pools) {
  const auto same = std::ranges::find_if(pools, [&](const KvPoolSpec& pool) {
    return pool.num_kv_heads == spec.num_kv_heads && pool.head_dim == spec.head_dim &&
           pool.latent_dim == spec.latent_dim;
  });
  if (same != pools.end()) return static_cast<int>(same - pools.begin());
  pools.push_back(spec);
  return static_cast<int>(pools.size()) - 1;
}

}  // namespace

uint64_t KvLayout::bytes_per_block() const {
  uint64_t bytes = 0;
  for (const KvPoolSpec& pool : pools) {
    bytes += uint64_t{1} * pool.num_layers * pool.block_size * pool.bytes_per_position();
  }
  return bytes;
}

KvLayout KvLayoutOf(const ModelConfig& config, const ShardPlan& plan, int block_size, DType dtype) {
  KvLayout layout;
  for (auto layer = static_cast<int>(plan.layers.begin); layer < plan.layers.end; ++layer) {
    if (const int source = config.layers[layer].attention.kv_source; source >= 0) {
      SLUICE_CHECK(source >= plan.layers.begin && source < layer);  // as MakeShardPlan cuts them
      layout.slots.push_back(layout.slots[source - plan.layers.begin]);
      continue;
    }
    if (!config.layers[layer].attention.has_keys()) {
      layout.slots.push_back({.pool = -1});
      continue;
    }
    const int pool = PoolOf(SpecOf(layer, config, plan), layout.pools);
    if (config.is_encoder()) {
      // A text is computed in one step, layer by layer: each may overwrite what the one before read.
      layout.pools[pool].num_layers = 1;
      layout.slots.push_back({pool, 0});
      continue;
    }
    if (config.reads_source(layer)) {
      // Likewise, before the layers that read the source keep what they need of it.
      layout.pools[pool].num_layers = 1;
      layout.slots.push_back({pool, 0});
      continue;
    }
    const bool follows_source = config.source.has_value() && layer == config.source->num_layers &&
                                layer > plan.layers.begin;
    layout.slots.push_back({pool, follows_source ? 0 : layout.pools[pool].num_layers++});
  }
  for (KvPoolSpec& pool : layout.pools) {
    pool.block_size = block_size;
    pool.dtype = dtype;
  }
  return layout;
}

}  // namespace sluice
