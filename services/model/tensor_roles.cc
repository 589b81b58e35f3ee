#include "services/model/tensor_roles.h"

#include <cstdint>
#include <iterator>
#include <variant>

#include "kernels/check.h"

namespace sluice {
namespace {

// Whether an MLP, or an expert, has a tensor. False for roles outside both.
bool HasMlpRole(TensorRole role, const DenseMlpSpec& mlp) {
  switch (role) {
    case TensorRole::kGate:
      return mlp.gated;
    case TensorRole::kUp:
    case TensorRole::kDown:
      return true;
    case TensorRole::kGateBias:
      return mlp.bias && mlp.gated;
    case TensorRole::kUpBias:
    case TensorRole::kDownBias:
      return mlp.bias;
    default:
      return false;
  }
}

// REQUIRES: a role of attention's projections, or a norm or bias that only latent attention has.
bool HasProjection(TensorRole role, const AttentionSpec& attention) {
  if (!attention.has_keys()) return false;
  if (!attention.latent.has_value()) {
    const bool of_kv = role == TensorRole::kK || role == TensorRole::kV;
    return role == TensorRole::kQ || (of_kv && attention.kv_source < 0);
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

// REQUIRES: a role that not every MLP has.
bool HasMlpTensor(TensorId tensor, const DenseMlpSpec& mlp) {
  return tensor.expert < 0 && HasMlpRole(tensor.role, mlp);
}
bool HasMlpTensor(TensorId tensor, const MixtureSpec& mixture) {
  if (tensor.expert >= 0) return HasMlpRole(tensor.role, mixture.expert);
  if (mixture.beside.has_value() && HasMlpRole(tensor.role, *mixture.beside)) return true;
  switch (tensor.role) {
    case TensorRole::kMixtureNorm:
    case TensorRole::kBesidePostNorm:
    case TensorRole::kMixturePostNorm:
    case TensorRole::kRouterScale:
      return mixture.beside.has_value();
    case TensorRole::kExpertFactors:
      return mixture.expert_factors;
    case TensorRole::kRouter:
      return true;
    case TensorRole::kRouterBias:
      return mixture.router.bias;
    case TensorRole::kChoiceBias:
      return mixture.router.choice_bias;
    case TensorRole::kSharedGate:
      return mixture.shared_width > 0 && mixture.expert.gated;
    case TensorRole::kSharedUp:
    case TensorRole::kSharedDown:
      return mixture.shared_width > 0;
    case TensorRole::kSharedScore:
      return mixture.shared_score;
    default:
      return false;
  }
}

bool HasMlpTensor(TensorId, const NoMlpSpec&) { return false; }

bool IsRecurrent(TensorRole role) {
  return role >= TensorRole::kRecurrentQ && role <= TensorRole::kRecurrentOut;
}

// REQUIRES: a role of layers with states alone.
bool HasRecurrentTensor(TensorRole role, const AttentionSpec& attention) {
  if (!attention.recurrent.has_value()) return false;
  const RecurrentSpec& recurrent = *attention.recurrent;
  switch (role) {
    case TensorRole::kBeta:
      return recurrent.kind == RecurrenceKind::kGatedDelta;
    case TensorRole::kSkip:
      return recurrent.kind == RecurrenceKind::kStateSpace;
    case TensorRole::kConvQBias:
    case TensorRole::kConvKBias:
    case TensorRole::kConvVBias:
      return recurrent.conv_bias;
    default:
      return true;
  }
}

int NumExperts(int layer, const ModelConfig& config) {
  const MixtureSpec* const mixture = layer < 0 ? nullptr : MixtureOf(config.layers[layer]);
  return mixture == nullptr ? 0 : mixture->router.num_experts;
}

int WidthOf(TensorId, const DenseMlpSpec& mlp) { return mlp.width; }
// Whether a tensor of a mixture is that of the MLP beside it.
bool IsBeside(TensorId tensor, const MixtureSpec& mixture) {
  return tensor.expert < 0 && mixture.beside.has_value() &&
         HasMlpRole(tensor.role, *mixture.beside);
}
int WidthOf(TensorId tensor, const MixtureSpec& mixture) {
  if (IsBeside(tensor, mixture)) return mixture.beside->width;
  return tensor.expert >= 0 ? mixture.expert.width : mixture.shared_width;
}

int WidthOf(TensorId, const NoMlpSpec&) { return 0; }

MlpPart PartOf(TensorId, const NoMlpSpec&, const ShardPlan&) { return {}; }
MlpPart PartOf(TensorId, const DenseMlpSpec& mlp, const ShardPlan& plan) {
  return plan.MlpOf(mlp.width);
}
MlpPart PartOf(TensorId tensor, const MixtureSpec& mixture, const ShardPlan& plan) {
  if (IsBeside(tensor, mixture)) return plan.MlpOf(mixture.beside->width);
  return plan.MlpOf(mixture, WidthOf(tensor, mixture));
}

// Of the roles [begin, end), those that the model has; after those of a layer the experts' own,
// expert by expert.
std::vector<TensorId> TensorsOfRoles(int begin, int end, int layer, const ModelConfig& config) {
  std::vector<TensorId> tensors;
  for (int role = begin; role < end; ++role) {
    const TensorId tensor{static_cast<TensorRole>(role), layer};
    if (HasTensor(tensor, config)) tensors.push_back(tensor);
  }
  for (int expert = 0; expert < NumExperts(layer, config); ++expert) {
    for (int role = begin; role < end; ++role) {
      const TensorId tensor{static_cast<TensorRole>(role), layer, expert};
      if (HasMlpRole(tensor.role, MixtureOf(config.layers[layer])->expert)) {
        tensors.push_back(tensor);
      }
    }
  }
  return tensors;
}

// REQUIRES: a role of attention to the source.
bool HasCrossTensor(TensorRole role, const LayerSpec& layer, const ModelConfig& config) {
  if (layer.reads != LayerSpec::Reads::kTextAndSource) return false;
  switch (role) {
    case TensorRole::kCrossNorm:
      return layer.norms.before_attention;
    case TensorRole::kCrossNormBias:
      return layer.norms.before_attention && config.norm_bias;
    case TensorRole::kCrossPostNorm:
      return layer.norms.after_attention;
    case TensorRole::kCrossPostNormBias:
      return layer.norms.after_attention && config.norm_bias;
    case TensorRole::kCrossQBias:
    case TensorRole::kCrossKBias:
    case TensorRole::kCrossVBias:
      return layer.attention.qkv_bias;
    case TensorRole::kCrossOBias:
      return layer.attention.o_bias;
    default:
      return true;
  }
}

bool HasQkNorm(TensorRole role, const AttentionSpec& attention) {
  const bool is_stored = attention.has_keys() && attention.qk_norm &&
                         attention.qk_norm_kind != QkNormKind::kPlainHeadRms;
  return is_stored && (role == TensorRole::kQNorm || attention.kv_source < 0);
}

}  // namespace

bool HasTensor(TensorId tensor, const ModelConfig& config) {
  if (IsRecurrent(tensor.role)) {
    return HasRecurrentTensor(tensor.role, config.layers[tensor.layer].attention);
  }
  if (tensor.role >= TensorRole::kCrossNorm && tensor.role <= TensorRole::kCrossOBias) {
    return HasCrossTensor(tensor.role, config.layers[tensor.layer], config);
  }
  switch (tensor.role) {
    case TensorRole::kPositions:
      return config.position == PositionKind::kLearned;
    case TensorRole::kSourcePositions:
      return config.source.has_value() && config.position == PositionKind::kLearned;
    case TensorRole::kSourceEmbeddingNorm:
      return config.source.has_value() && config.embedding_norm;
    case TensorRole::kSourceEmbeddingNormBias:
      return config.source.has_value() && config.embedding_norm && config.norm_bias;
    case TensorRole::kRelativeBias:
      return config.layers[tensor.layer].attention.relative.has_value();
    case TensorRole::kLeavingNorm:
      return config.layers[tensor.layer].norms.leaving;
    case TensorRole::kLeavingNormBias:
      return config.layers[tensor.layer].norms.leaving && config.norm_bias;
    case TensorRole::kFinalNorm:
      return config.final_norm;
    case TensorRole::kFinalNormBias:
      return config.final_norm && config.norm_bias;
    case TensorRole::kHead:
      return config.has_head;
    case TensorRole::kTokenTypes:
      return config.num_token_types > 0;
    case TensorRole::kEmbeddingNorm:
      return config.embedding_norm;
    case TensorRole::kEmbeddingNormBias:
      return config.embedding_norm && config.norm_bias;
    case TensorRole::kHeadBias:
      return config.head_bias;
    case TensorRole::kAttentionNorm:
      return config.layers[tensor.layer].norms.before_attention;
    case TensorRole::kAttentionNormBias:
      return config.norm_bias && config.layers[tensor.layer].norms.before_attention;
    case TensorRole::kMlpNorm:
      return config.layers[tensor.layer].norms.before_mlp;
    case TensorRole::kMlpNormBias:
      return config.norm_bias && config.layers[tensor.layer].norms.before_mlp;
    case TensorRole::kAttentionPostNorm:
      return config.layers[tensor.layer].norms.after_attention;
    case TensorRole::kMlpPostNorm:
      return config.layers[tensor.layer].norms.after_mlp;
    case TensorRole::kAttentionPostNormBias:
      return config.norm_bias && config.layers[tensor.layer].norms.after_attention;
    case TensorRole::kMlpPostNormBias:
      return config.norm_bias && config.layers[tensor.layer].norms.after_mlp;
    case TensorRole::kQBias:
      return config.layers[tensor.layer].attention.qkv_bias;
    case TensorRole::kKBias:
    case TensorRole::kVBias:
      return config.layers[tensor.layer].attention.qkv_bias &&
             config.layers[tensor.layer].attention.has_keys() &&
             config.layers[tensor.layer].attention.kv_source < 0;
    case TensorRole::kO:
      return config.layers[tensor.layer].attention.has_keys();
    case TensorRole::kOutputFactor:
      return config.layers[tensor.layer].output_factor;
    case TensorRole::kSideEmbedding:
    case TensorRole::kSideProjection:
    case TensorRole::kSideProjectionNorm:
    case TensorRole::kSideGate:
    case TensorRole::kSideOut:
    case TensorRole::kSideNorm:
      return config.side_width() > 0;
    case TensorRole::kOBias:
      return config.layers[tensor.layer].attention.o_bias &&
             config.layers[tensor.layer].attention.has_keys();
    case TensorRole::kQGate:
      return config.layers[tensor.layer].attention.output_gate &&
             config.layers[tensor.layer].attention.has_keys();
    case TensorRole::kQNorm:
    case TensorRole::kKNorm:
      return HasQkNorm(tensor.role, config.layers[tensor.layer].attention);
    case TensorRole::kSinks:
      return config.layers[tensor.layer].attention.sinks &&
             config.layers[tensor.layer].attention.has_keys();
    case TensorRole::kQNormBias:
    case TensorRole::kKNormBias:
      return config.layers[tensor.layer].attention.qk_norm &&
             config.layers[tensor.layer].attention.has_keys() &&
             config.layers[tensor.layer].attention.qk_norm_kind == QkNormKind::kHeadLayer;
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
    case TensorRole::kUp:
    case TensorRole::kDown:
    case TensorRole::kGateBias:
    case TensorRole::kUpBias:
    case TensorRole::kDownBias:
    case TensorRole::kRouter:
    case TensorRole::kRouterBias:
    case TensorRole::kChoiceBias:
    case TensorRole::kSharedGate:
    case TensorRole::kSharedUp:
    case TensorRole::kSharedDown:
    case TensorRole::kSharedScore:
    case TensorRole::kMixtureNorm:
    case TensorRole::kBesidePostNorm:
    case TensorRole::kMixturePostNorm:
    case TensorRole::kRouterScale:
    case TensorRole::kExpertFactors:
      return std::visit([&](const auto& mlp) { return HasMlpTensor(tensor, mlp); },
                        config.layers[tensor.layer].mlp);
    default:
      return true;
  }
}

int MlpWidthOf(TensorId tensor, const ModelConfig& config) {
  return std::visit([&](const auto& mlp) { return WidthOf(tensor, mlp); },
                    config.layers[tensor.layer].mlp);
}

MlpPart MlpPartOf(TensorId tensor, const ModelConfig& config, const ShardPlan& plan) {
  return std::visit([&](const auto& mlp) { return PartOf(tensor, mlp, plan); },
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

IndexRange Scaled(IndexRange range, int64_t factor) {
  return {range.begin * factor, range.end * factor};
}

// What a dimension of a tensor counts.
enum class Dim : uint8_t {
  kOne,
  kHidden,
  kVocabulary,
  kPositions,  // those before position 0 included
  kSourcePositions,
  kBuckets,  // of RelativeSpec
  kTokenTypes,
  kSide,           // S of SideSpec
  kSideAllLayers,  // L * S
  kHeads,
  kQueries,
  kKeys,  // or values
  kHeadDim,
  kValues,     // of all heads, as O reads them
  kQNormRows,  // as QkNormKind says
  kKNormRows,
  kNormColumns,
  kMlp,
  kExperts,
  // Of latent attention.
  kQueryLatent,
  kStored,
  kLatent,
  kKeysAndValuesOfLatent,
  // Of states.
  kRecurrentHeads,
  kRecurrentKeys,
  kRecurrentValues,
  kRecurrentNorm,
  kConvWidth,
};

struct RoleDims {
  TensorRole role;
  Dim rows;
  Dim columns = Dim::kOne;
};

// In the order of the roles.
constexpr RoleDims kDims[] = {
    {TensorRole::kEmbedding, Dim::kVocabulary, Dim::kHidden},
    {TensorRole::kFinalNorm, Dim::kHidden},
    {TensorRole::kHead, Dim::kVocabulary, Dim::kHidden},
    {TensorRole::kPositions, Dim::kPositions, Dim::kHidden},
    {TensorRole::kFinalNormBias, Dim::kHidden},
    {TensorRole::kHeadBias, Dim::kVocabulary},
    {TensorRole::kSideEmbedding, Dim::kVocabulary, Dim::kSideAllLayers},
    {TensorRole::kSideProjection, Dim::kSideAllLayers, Dim::kHidden},
    {TensorRole::kSideProjectionNorm, Dim::kSide},
    {TensorRole::kTokenTypes, Dim::kTokenTypes, Dim::kHidden},
    {TensorRole::kEmbeddingNorm, Dim::kHidden},
    {TensorRole::kEmbeddingNormBias, Dim::kHidden},
    {TensorRole::kSourcePositions, Dim::kSourcePositions, Dim::kHidden},
    {TensorRole::kSourceEmbeddingNorm, Dim::kHidden},
    {TensorRole::kSourceEmbeddingNormBias, Dim::kHidden},
    {TensorRole::kAttentionNorm, Dim::kHidden},
    {TensorRole::kQ, Dim::kQueries, Dim::kHidden},
    {TensorRole::kK, Dim::kKeys, Dim::kHidden},
    {TensorRole::kV, Dim::kKeys, Dim::kHidden},
    {TensorRole::kO, Dim::kHidden, Dim::kValues},
    {TensorRole::kMlpNorm, Dim::kHidden},
    {TensorRole::kGate, Dim::kMlp, Dim::kHidden},
    {TensorRole::kUp, Dim::kMlp, Dim::kHidden},
    {TensorRole::kDown, Dim::kHidden, Dim::kMlp},
    {TensorRole::kQBias, Dim::kQueries},
    {TensorRole::kKBias, Dim::kKeys},
    {TensorRole::kVBias, Dim::kKeys},
    {TensorRole::kOBias, Dim::kHidden},
    {TensorRole::kGateBias, Dim::kMlp},
    {TensorRole::kUpBias, Dim::kMlp},
    {TensorRole::kDownBias, Dim::kHidden},
    {TensorRole::kAttentionNormBias, Dim::kHidden},
    {TensorRole::kMlpNormBias, Dim::kHidden},
    {TensorRole::kQNorm, Dim::kQNormRows, Dim::kNormColumns},
    {TensorRole::kKNorm, Dim::kKNormRows, Dim::kNormColumns},
    {TensorRole::kQNormBias, Dim::kHeadDim},
    {TensorRole::kKNormBias, Dim::kHeadDim},
    {TensorRole::kAttentionPostNorm, Dim::kHidden},
    {TensorRole::kMlpPostNorm, Dim::kHidden},
    {TensorRole::kRouter, Dim::kExperts, Dim::kHidden},
    {TensorRole::kRouterBias, Dim::kExperts},
    {TensorRole::kChoiceBias, Dim::kExperts},
    {TensorRole::kSharedGate, Dim::kMlp, Dim::kHidden},
    {TensorRole::kSharedUp, Dim::kMlp, Dim::kHidden},
    {TensorRole::kSharedDown, Dim::kHidden, Dim::kMlp},
    {TensorRole::kSharedScore, Dim::kOne, Dim::kHidden},
    {TensorRole::kSinks, Dim::kHeads},
    {TensorRole::kQA, Dim::kQueryLatent, Dim::kHidden},
    {TensorRole::kQANorm, Dim::kQueryLatent},
    {TensorRole::kQB, Dim::kQueries, Dim::kQueryLatent},
    {TensorRole::kKvA, Dim::kStored, Dim::kHidden},
    {TensorRole::kKvANorm, Dim::kLatent},
    {TensorRole::kKvB, Dim::kKeysAndValuesOfLatent, Dim::kLatent},
    {TensorRole::kQABias, Dim::kQueryLatent},
    {TensorRole::kKvABias, Dim::kStored},
    {TensorRole::kQGate, Dim::kQueries, Dim::kHidden},
    {TensorRole::kRecurrentQ, Dim::kRecurrentKeys, Dim::kHidden},
    {TensorRole::kRecurrentK, Dim::kRecurrentKeys, Dim::kHidden},
    {TensorRole::kRecurrentV, Dim::kRecurrentValues, Dim::kHidden},
    {TensorRole::kRecurrentGate, Dim::kRecurrentValues, Dim::kHidden},
    {TensorRole::kBeta, Dim::kRecurrentHeads, Dim::kHidden},
    {TensorRole::kDecay, Dim::kRecurrentHeads, Dim::kHidden},
    {TensorRole::kConvQ, Dim::kRecurrentKeys, Dim::kConvWidth},
    {TensorRole::kConvK, Dim::kRecurrentKeys, Dim::kConvWidth},
    {TensorRole::kConvV, Dim::kRecurrentValues, Dim::kConvWidth},
    {TensorRole::kConvQBias, Dim::kRecurrentKeys},
    {TensorRole::kConvKBias, Dim::kRecurrentKeys},
    {TensorRole::kConvVBias, Dim::kRecurrentValues},
    {TensorRole::kDecayBias, Dim::kRecurrentHeads},
    {TensorRole::kLogRate, Dim::kRecurrentHeads},
    {TensorRole::kSkip, Dim::kRecurrentHeads},
    {TensorRole::kRecurrentNorm, Dim::kRecurrentNorm},
    {TensorRole::kRecurrentOut, Dim::kHidden, Dim::kRecurrentValues},
    {TensorRole::kMixtureNorm, Dim::kHidden},
    {TensorRole::kBesidePostNorm, Dim::kHidden},
    {TensorRole::kMixturePostNorm, Dim::kHidden},
    {TensorRole::kRouterScale, Dim::kHidden},
    {TensorRole::kExpertFactors, Dim::kExperts},
    {TensorRole::kSideGate, Dim::kSide, Dim::kHidden},
    {TensorRole::kSideOut, Dim::kHidden, Dim::kSide},
    {TensorRole::kSideNorm, Dim::kHidden},
    {TensorRole::kOutputFactor, Dim::kOne},
    {TensorRole::kAttentionPostNormBias, Dim::kHidden},
    {TensorRole::kMlpPostNormBias, Dim::kHidden},
    {TensorRole::kRelativeBias, Dim::kBuckets, Dim::kHeads},
    {TensorRole::kLeavingNorm, Dim::kHidden},
    {TensorRole::kLeavingNormBias, Dim::kHidden},
    {TensorRole::kCrossNorm, Dim::kHidden},
    {TensorRole::kCrossNormBias, Dim::kHidden},
    {TensorRole::kCrossPostNorm, Dim::kHidden},
    {TensorRole::kCrossPostNormBias, Dim::kHidden},
    {TensorRole::kCrossQ, Dim::kQueries, Dim::kHidden},
    {TensorRole::kCrossK, Dim::kKeys, Dim::kHidden},
    {TensorRole::kCrossV, Dim::kKeys, Dim::kHidden},
    {TensorRole::kCrossO, Dim::kHidden, Dim::kValues},
    {TensorRole::kCrossQBias, Dim::kQueries},
    {TensorRole::kCrossKBias, Dim::kKeys},
    {TensorRole::kCrossVBias, Dim::kKeys},
    {TensorRole::kCrossOBias, Dim::kHidden},
};

constexpr bool HasEveryRole() {
  for (int role = 0; role < kNumTensorRoles; ++role) {
    if (kDims[role].role != static_cast<TensorRole>(role)) return false;
  }
  return std::size(kDims) == kNumTensorRoles;
}
static_assert(HasEveryRole());

const RoleDims& DimsOf(TensorRole role) { return kDims[static_cast<int>(role)]; }

// A norm of queries or keys has head_dim weights, or as many for each head: one below the other, or
// a row each.
enum class HeadNorm { kShared, kStacked, kRows };

HeadNorm HeadNormOf(TensorId tensor, const ModelConfig& config) {
  switch (config.layers[tensor.layer].attention.qk_norm_kind) {
    case QkNormKind::kHeadRms:
    case QkNormKind::kHeadLayer:
      return HeadNorm::kShared;
    case QkNormKind::kWholeRms:
      return HeadNorm::kStacked;
    case QkNormKind::kOwnHeadLayer:
      return HeadNorm::kRows;
    case QkNormKind::kPlainHeadRms:  // has none
      break;
  }
  SLUICE_CHECK(false);
  return {};
}

// Of the rows of such a norm, those of `heads`.
IndexRange HeadNormRows(TensorId tensor, IndexRange heads, const ModelConfig& config) {
  const int64_t head_dim = config.head_dim_of(tensor.layer);
  const HeadNorm norm = HeadNormOf(tensor, config);
  if (norm == HeadNorm::kStacked) return Scaled(heads, head_dim);
  return norm == HeadNorm::kRows ? heads : IndexRange{0, head_dim};
}

// The part of a dimension that a shard of this plan holds: its heads, its columns of MLPs, or all.
// Null: the whole model.
IndexRange RangeOf(Dim dim, TensorId tensor, const ModelConfig& config, const ShardPlan* plan) {
  const int layer = tensor.layer;
  const auto all = [](int64_t size) { return IndexRange{0, size}; };
  const IndexRange heads = plan != nullptr ? plan->heads : all(config.num_heads);
  const auto kv_heads = [&] {
    return plan != nullptr ? KvHeadsOf(layer, config, *plan) : all(config.kv_heads_of(layer));
  };
  const auto recurrent_heads = [&] {
    return plan != nullptr ? plan->recurrent_heads : all(config.recurrent()->num_heads);
  };
  const auto recurrent_values = [&] {
    return Scaled(recurrent_heads(), config.recurrent()->value_dim);
  };
  switch (dim) {
    case Dim::kOne:
      return all(1);
    case Dim::kHidden:
      return all(config.hidden_size);
    case Dim::kVocabulary:
      return all(config.vocab_size);
    case Dim::kPositions:
      return all(int64_t{config.position_offset} +
                 (config.source.has_value() ? config.source->max_written : config.max_positions));
    case Dim::kSourcePositions:
      return all(int64_t{config.position_offset} + config.source->max_positions);
    case Dim::kBuckets:
      return all(config.layers[layer].attention.relative->buckets);
    case Dim::kTokenTypes:
      return all(config.num_token_types);
    case Dim::kSide:
      return all(config.side_width());
    case Dim::kSideAllLayers:
      return all(config.row_width() - config.hidden_size);
    case Dim::kHeads:
      return heads;
    case Dim::kQueries:
      return Scaled(heads, config.head_dim_of(layer));
    case Dim::kKeys:
      return Scaled(kv_heads(), config.head_dim_of(layer));
    case Dim::kHeadDim:
      return all(config.head_dim_of(layer));
    case Dim::kValues:
      return Scaled(heads, config.value_dim(layer));
    case Dim::kQNormRows:
      return HeadNormRows(tensor, heads, config);
    case Dim::kKNormRows:
      return HeadNormRows(tensor, kv_heads(), config);
    case Dim::kNormColumns:
      return all(HeadNormOf(tensor, config) == HeadNorm::kRows ? config.head_dim_of(layer) : 1);
    case Dim::kMlp:
      return plan != nullptr ? MlpPartOf(tensor, config, *plan).columns
                             : all(MlpWidthOf(tensor, config));
    case Dim::kExperts:
      return all(NumExperts(layer, config));
    case Dim::kQueryLatent:
      return all(config.latent()->query_rank);
    case Dim::kStored:
      return all(config.latent()->stored_dim());
    case Dim::kLatent:
      return all(config.latent()->rank);
    case Dim::kKeysAndValuesOfLatent:
      return Scaled(heads, config.latent()->nope_dim + config.latent()->value_dim);
    case Dim::kRecurrentHeads:
      return recurrent_heads();
    case Dim::kRecurrentKeys:
      return Scaled(
          plan != nullptr ? plan->recurrent_key_heads : all(config.recurrent()->num_key_heads),
          config.recurrent()->key_dim);
    case Dim::kRecurrentValues:
      return recurrent_values();
    case Dim::kRecurrentNorm:
      return config.recurrent()->kind == RecurrenceKind::kGatedDelta
                 ? all(config.recurrent()->value_dim)
                 : recurrent_values();
    case Dim::kConvWidth:
      return all(config.recurrent()->conv_width);
  }
  SLUICE_CHECK(false);
  return {};
}

}  // namespace

MatrixShape ShapeOf(TensorId tensor, const ModelConfig& config) {
  const RoleDims& dims = DimsOf(tensor.role);
  return {RangeOf(dims.rows, tensor, config, nullptr).size(),
          RangeOf(dims.columns, tensor, config, nullptr).size()};
}

TensorSlice SliceOf(TensorId tensor, const ModelConfig& config, const ShardPlan& plan) {
  const RoleDims& dims = DimsOf(tensor.role);
  return {RangeOf(dims.rows, tensor, config, &plan), RangeOf(dims.columns, tensor, config, &plan)};
}

}  // namespace sluice
