#include "services/model/memory_plan.h"

#include <algorithm>

#include "kernels/kv_format.h"
#include "kernels/state_format.h"
#include "services/model/tensor_roles.h"
#include "services/model/weight_rule.h"

namespace sluice {
namespace {

// On the kind of device that keeps most of it.
uint64_t BytesOf(const TensorSlice& slice, WeightFormat format) {
  const WeightFormatTraits& traits = TraitsOf(format);
  size_t row_bytes = RowBytes(traits.on_cpu, slice.columns.size());
  // GPUs keep formats of files of others as BF16; plans are of hosts, which do not.
  if (!IsPublished(format)) {
    row_bytes = std::max(row_bytes, RowBytes(traits.on_gpu, slice.columns.size()));
  }
  return static_cast<uint64_t>(slice.rows.size()) * row_bytes;
}

uint64_t BytesOf(TensorId tensor, const ModelConfig& config, WeightFormat wanted) {
  return BytesOf(WholeOf(ShapeOf(tensor, config)), FormatOf(tensor, config, wanted));
}

// Of the slot of one recurrent layer, so many heads of it.
uint64_t StateBytes(const ModelConfig& config, int64_t heads, int64_t key_heads) {
  const RecurrentSpec* recurrent = config.recurrent();
  if (recurrent == nullptr) return 0;
  const StatePoolSpec spec{.num_heads = static_cast<int>(heads),
                           .num_key_heads = static_cast<int>(key_heads),
                           .key_dim = recurrent->key_dim,
                           .value_dim = recurrent->value_dim,
                           .conv_width = recurrent->conv_width};
  return spec.bytes_per_slot();
}

// A latent is kept once, whatever the number of heads; `kv_heads` of a layer.
template <typename KvHeads>
uint64_t KvBytes(IndexRange layers, const KvHeads& kv_heads, const ModelConfig& config,
                 DType dtype) {
  if (const LatentSpec* latent = config.latent(); latent != nullptr) {
    return layers.size() * KvVectorBytes(dtype, latent->stored_dim());
  }
  uint64_t bytes = 0;
  // The layers of an encoder use the same memory one after another.
  if (config.is_encoder()) layers.end = std::min(layers.end, layers.begin + 1);
  // And so do those of a source, in what the first layer that reads it has.
  if (config.source.has_value() && layers.end > config.source->num_layers) {
    layers.begin = std::max<int64_t>(layers.begin, config.source->num_layers);
  } else if (config.source.has_value()) {
    layers.end = std::min(layers.end, layers.begin + 1);
  }
  for (auto layer = static_cast<int>(layers.begin); layer < layers.end; ++layer) {
    const AttentionSpec& attention = config.layers[layer].attention;
    if (attention.kv_source >= 0 || !attention.has_keys()) continue;
    bytes += uint64_t{2} * kv_heads(layer) * KvVectorBytes(dtype, config.head_dim_of(layer));
  }
  return bytes;
}

}  // namespace

bool IsOfTheEmbedding(TensorId tensor) {
  switch (tensor.role) {
    case TensorRole::kEmbedding:
    case TensorRole::kPositions:
    case TensorRole::kTokenTypes:
    case TensorRole::kEmbeddingNorm:
    case TensorRole::kEmbeddingNormBias:
    case TensorRole::kSourcePositions:
    case TensorRole::kSourceEmbeddingNorm:
    case TensorRole::kSourceEmbeddingNormBias:
    case TensorRole::kSideEmbedding:
    case TensorRole::kSideProjection:
    case TensorRole::kSideProjectionNorm:
      return true;
    default:
      return false;
  }
}

uint64_t NumParameters(const ModelConfig& config) {
  uint64_t count = 0;
  for (const TensorId tensor : AllTensors(config)) {
    const bool counted = tensor.role == TensorRole::kHead && config.tied_embeddings;
    if (!counted) count += ShapeOf(tensor, config).size();
  }
  return count;
}

uint64_t EmbeddingBytes(const ModelConfig& config, WeightFormat wanted) {
  uint64_t bytes = 0;
  for (const TensorId tensor : TensorsOutsideLayers(config)) {
    if (IsOfTheEmbedding(tensor)) bytes += BytesOf(tensor, config, wanted);
  }
  return bytes;
}

uint64_t ShardBytes(const ModelConfig& config, const ShardPlan& plan, WeightFormat wanted) {
  uint64_t bytes = 0;
  for (auto layer = static_cast<int>(plan.layers.begin); layer < plan.layers.end; ++layer) {
    for (const TensorId tensor : TensorsOfLayer(layer, config)) {
      bytes += BytesOf(SliceOf(tensor, config, plan), FormatOf(tensor, config, wanted));
    }
  }
  return bytes;
}

uint64_t HeadBytes(const ModelConfig& config, WeightFormat wanted) {
  uint64_t bytes = 0;
  for (const TensorId tensor : TensorsOutsideLayers(config)) {
    if (!IsOfTheEmbedding(tensor)) bytes += BytesOf(tensor, config, wanted);
  }
  return bytes;
}

uint64_t KvBytesPerPosition(const ModelConfig& config, const ShardPlan& plan, DType dtype) {
  const auto kv_heads = [&](int layer) { return KvHeadsOf(layer, config, plan).size(); };
  return KvBytes(plan.layers, kv_heads, config, dtype);
}

uint64_t KvBytesPerPosition(const ModelConfig& config, DType dtype) {
  const auto kv_heads = [&](int layer) { return config.kv_heads_of(layer); };
  return KvBytes({0, config.num_layers()}, kv_heads, config, dtype);
}

uint64_t StateSlotBytes(const ModelConfig& config, const ShardPlan& plan) {
  return config.NumRecurrentLayers(plan.layers.begin, plan.layers.end) *
         StateBytes(config, plan.recurrent_heads.size(), plan.recurrent_key_heads.size());
}

uint64_t StateSlotBytes(const ModelConfig& config) {
  const RecurrentSpec* recurrent = config.recurrent();
  if (recurrent == nullptr) return 0;
  return config.NumRecurrentLayers(0, config.num_layers()) *
         StateBytes(config, recurrent->num_heads, recurrent->num_key_heads);
}

KvRoom DivideKvBytes(uint64_t bytes, uint64_t bytes_per_block, uint64_t bytes_per_slot,
                     uint64_t num_state_slots) {
  constexpr uint64_t kFewest = 2;  // the state to go on from, and that being written
  if (bytes_per_slot == 0) return {.num_blocks = bytes / bytes_per_block};
  if (num_state_slots == 0) {
    const uint64_t in_half = bytes / 2 / bytes_per_slot;
    const uint64_t with_every_block = bytes / (bytes_per_block + bytes_per_slot);
    num_state_slots =
        std::max(kFewest, bytes_per_slot <= bytes_per_block ? with_every_block : in_half);
  }
  const uint64_t states = num_state_slots * bytes_per_slot;
  return {.num_blocks = bytes > states ? (bytes - states) / bytes_per_block : 0,
          .num_state_slots = num_state_slots};
}

int KvCopies(const ModelConfig& config, int num_ranks) {
  return config.latent() != nullptr ? num_ranks : 1;
}

}  // namespace sluice
