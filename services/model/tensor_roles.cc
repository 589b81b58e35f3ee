#include "services/model/tensor_roles.h"

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

IndexRange Scaled(IndexRange range, int64_t factor) {
  return {range.begin * factor, range.end * factor};
}

// Of the weights of a norm of `heads` heads.
MatrixShape QkNormShape(QkNormKind kind, int64_t heads, int64_t head_dim) {
  switch (kind) {
    case QkNormKind::kHeadRms:
    case QkNormKind::kHeadLayer:
      return {head_dim, 1};
    case QkNormKind::kWholeRms:
      return {heads * head_dim, 1};
    case QkNormKind::kOwnHeadLayer:
      return {heads, head_dim};
    case QkNormKind::kPlainHeadRms:  // has none
      break;
  }
  SLUICE_CHECK(false);
  return {};
}

// The rows of such weights that are those of `heads`.
IndexRange QkNormRows(QkNormKind kind, IndexRange heads, int64_t head_dim) {
  if (kind == QkNormKind::kWholeRms) return Scaled(heads, head_dim);
  return kind == QkNormKind::kOwnHeadLayer ? heads : IndexRange{0, head_dim};
}

bool HasQkNorm(TensorRole role, const AttentionSpec& attention) {
  const bool is_stored = attention.has_keys() && attention.qk_norm &&
                         attention.qk_norm_kind != QkNormKind::kPlainHeadRms;
  return is_stored && (role == TensorRole::kQNorm || attention.kv_source < 0);
}

QkNormKind QkNormOf(TensorId tensor, const ModelConfig& config) {
  return config.layers[tensor.layer].attention.qk_norm_kind;
}

}  // namespace

bool HasTensor(TensorId tensor, const ModelConfig& config) {
  switch (tensor.role) {
    case TensorRole::kPositions:
      return config.position == PositionKind::kLearned;
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
    case TensorRole::kRecurrentQ:
    case TensorRole::kRecurrentK:
    case TensorRole::kRecurrentV:
    case TensorRole::kRecurrentGate:
    case TensorRole::kBeta:
    case TensorRole::kDecay:
    case TensorRole::kConvQ:
    case TensorRole::kConvK:
    case TensorRole::kConvV:
    case TensorRole::kConvQBias:
    case TensorRole::kConvKBias:
    case TensorRole::kConvVBias:
    case TensorRole::kDecayBias:
    case TensorRole::kLogRate:
    case TensorRole::kSkip:
    case TensorRole::kRecurrentNorm:
    case TensorRole::kRecurrentOut:
      return HasRecurrentTensor(tensor.role, config.layers[tensor.layer].attention);
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

// REQUIRES: a role of latent attention alone.
MatrixShape LatentShapeOf(TensorRole role, const ModelConfig& config) {
  const LatentSpec& latent = *config.latent();
  switch (role) {
    case TensorRole::kQA:
      return {latent.query_rank, config.hidden_size};
    case TensorRole::kQANorm:
    case TensorRole::kQABias:
      return {latent.query_rank, 1};
    case TensorRole::kQB:
      return {int64_t{config.num_heads} * latent.query_dim(), latent.query_rank};
    case TensorRole::kKvA:
      return {latent.stored_dim(), config.hidden_size};
    case TensorRole::kKvABias:
      return {latent.stored_dim(), 1};
    case TensorRole::kKvANorm:
      return {latent.rank, 1};
    default:
      SLUICE_CHECK(role == TensorRole::kKvB);
      return {int64_t{config.num_heads} * (latent.nope_dim + latent.value_dim), latent.rank};
  }
}

// REQUIRES: a role of layers with states alone.
MatrixShape RecurrentShapeOf(TensorRole role, const ModelConfig& config) {
  const RecurrentSpec& recurrent = *config.recurrent();
  const int64_t keys = recurrent.keys_width(), values = recurrent.values_width();
  switch (role) {
    case TensorRole::kRecurrentQ:
    case TensorRole::kRecurrentK:
      return {keys, config.hidden_size};
    case TensorRole::kRecurrentV:
    case TensorRole::kRecurrentGate:
      return {values, config.hidden_size};
    case TensorRole::kBeta:
    case TensorRole::kDecay:
      return {recurrent.num_heads, config.hidden_size};
    case TensorRole::kConvQ:
    case TensorRole::kConvK:
      return {keys, recurrent.conv_width};
    case TensorRole::kConvV:
      return {values, recurrent.conv_width};
    case TensorRole::kConvQBias:
    case TensorRole::kConvKBias:
      return {keys, 1};
    case TensorRole::kConvVBias:
      return {values, 1};
    case TensorRole::kRecurrentNorm:
      return {recurrent.kind == RecurrenceKind::kGatedDelta ? recurrent.value_dim : values, 1};
    case TensorRole::kRecurrentOut:
      return {config.hidden_size, values};
    default:
      return {recurrent.num_heads, 1};
  }
}

// The rows or columns that a rank has of it.
TensorSlice RecurrentSliceOf(TensorRole role, const ModelConfig& config, const ShardPlan& plan) {
  const RecurrentSpec& recurrent = *config.recurrent();
  TensorSlice slice = WholeOf(RecurrentShapeOf(role, config));
  const IndexRange values = Scaled(plan.recurrent_heads, recurrent.value_dim);
  switch (role) {
    case TensorRole::kRecurrentQ:
    case TensorRole::kRecurrentK:
    case TensorRole::kConvQ:
    case TensorRole::kConvK:
    case TensorRole::kConvQBias:
    case TensorRole::kConvKBias:
      slice.rows = Scaled(plan.recurrent_key_heads, recurrent.key_dim);
      break;
    case TensorRole::kRecurrentV:
    case TensorRole::kRecurrentGate:
    case TensorRole::kConvV:
    case TensorRole::kConvVBias:
      slice.rows = values;
      break;
    case TensorRole::kRecurrentNorm:
      if (recurrent.kind == RecurrenceKind::kStateSpace) slice.rows = values;
      break;
    case TensorRole::kRecurrentOut:
      slice.columns = values;
      break;
    default:
      slice.rows = plan.recurrent_heads;
  }
  return slice;
}

}  // namespace

MatrixShape ShapeOf(TensorId tensor, const ModelConfig& config) {
  const int64_t hidden = config.hidden_size;
  switch (tensor.role) {
    case TensorRole::kEmbedding:
    case TensorRole::kHead:
      return {config.vocab_size, hidden};
    case TensorRole::kPositions:
      return {int64_t{config.position_offset} + config.max_positions, hidden};
    case TensorRole::kTokenTypes:
      return {config.num_token_types, hidden};
    case TensorRole::kFinalNorm:
    case TensorRole::kFinalNormBias:
    case TensorRole::kAttentionNorm:
    case TensorRole::kMlpNorm:
    case TensorRole::kAttentionNormBias:
    case TensorRole::kMlpNormBias:
    case TensorRole::kOBias:
    case TensorRole::kDownBias:
    case TensorRole::kAttentionPostNorm:
    case TensorRole::kMlpPostNorm:
    case TensorRole::kMixtureNorm:
    case TensorRole::kBesidePostNorm:
    case TensorRole::kMixturePostNorm:
    case TensorRole::kRouterScale:
    case TensorRole::kEmbeddingNorm:
    case TensorRole::kEmbeddingNormBias:
    case TensorRole::kAttentionPostNormBias:
    case TensorRole::kMlpPostNormBias:
      return {hidden, 1};
    case TensorRole::kSideNorm:
      return {hidden, 1};
    case TensorRole::kSideEmbedding:
      return {config.vocab_size, config.row_width() - hidden};
    case TensorRole::kSideProjection:
      return {config.row_width() - hidden, hidden};
    case TensorRole::kSideProjectionNorm:
      return {config.side_width(), 1};
    case TensorRole::kSideGate:
      return {config.side_width(), hidden};
    case TensorRole::kSideOut:
      return {hidden, config.side_width()};
    case TensorRole::kOutputFactor:
      return {1, 1};
    case TensorRole::kHeadBias:
      return {config.vocab_size, 1};
    case TensorRole::kQNorm:
      return QkNormShape(QkNormOf(tensor, config), config.num_heads,
                         config.head_dim_of(tensor.layer));
    case TensorRole::kKNorm:
      return QkNormShape(QkNormOf(tensor, config), config.kv_heads_of(tensor.layer),
                         config.head_dim_of(tensor.layer));
    case TensorRole::kQNormBias:
    case TensorRole::kKNormBias:
      return {config.head_dim_of(tensor.layer), 1};
    case TensorRole::kQ:
      return {config.query_width(tensor.layer), hidden};
    case TensorRole::kK:
    case TensorRole::kV:
      return {config.kv_width(tensor.layer), hidden};
    case TensorRole::kO:
      return {hidden, config.value_width(tensor.layer)};
    case TensorRole::kGate:
    case TensorRole::kUp:
    case TensorRole::kSharedGate:
    case TensorRole::kSharedUp:
      return {MlpWidthOf(tensor, config), hidden};
    case TensorRole::kDown:
    case TensorRole::kSharedDown:
      return {hidden, MlpWidthOf(tensor, config)};
    case TensorRole::kQBias:
      return {config.query_width(tensor.layer), 1};
    case TensorRole::kKBias:
    case TensorRole::kVBias:
      return {config.kv_width(tensor.layer), 1};
    case TensorRole::kGateBias:
    case TensorRole::kUpBias:
      return {MlpWidthOf(tensor, config), 1};
    case TensorRole::kRouter:
      return {NumExperts(tensor.layer, config), hidden};
    case TensorRole::kRouterBias:
    case TensorRole::kChoiceBias:
    case TensorRole::kExpertFactors:
      return {NumExperts(tensor.layer, config), 1};
    case TensorRole::kSharedScore:
      return {1, hidden};
    case TensorRole::kSinks:
      return {config.num_heads, 1};
    case TensorRole::kQA:
    case TensorRole::kQANorm:
    case TensorRole::kQB:
    case TensorRole::kKvA:
    case TensorRole::kKvANorm:
    case TensorRole::kKvB:
    case TensorRole::kQABias:
    case TensorRole::kKvABias:
      return LatentShapeOf(tensor.role, config);
    case TensorRole::kQGate:
      return {config.query_width(tensor.layer), hidden};
    case TensorRole::kRecurrentQ:
    case TensorRole::kRecurrentK:
    case TensorRole::kRecurrentV:
    case TensorRole::kRecurrentGate:
    case TensorRole::kBeta:
    case TensorRole::kDecay:
    case TensorRole::kConvQ:
    case TensorRole::kConvK:
    case TensorRole::kConvV:
    case TensorRole::kConvQBias:
    case TensorRole::kConvKBias:
    case TensorRole::kConvVBias:
    case TensorRole::kDecayBias:
    case TensorRole::kLogRate:
    case TensorRole::kSkip:
    case TensorRole::kRecurrentNorm:
    case TensorRole::kRecurrentOut:
      return RecurrentShapeOf(tensor.role, config);
  }
  SLUICE_CHECK(false);
  return {};
}

TensorSlice SliceOf(TensorId tensor, const ModelConfig& config, const ShardPlan& plan) {
  if (tensor.role >= TensorRole::kRecurrentQ && tensor.role <= TensorRole::kRecurrentOut) {
    return RecurrentSliceOf(tensor.role, config, plan);
  }
  TensorSlice slice = WholeOf(ShapeOf(tensor, config));
  switch (tensor.role) {
    case TensorRole::kQ:
    case TensorRole::kQGate:
    case TensorRole::kQB:
    case TensorRole::kQBias:
      slice.rows = Scaled(plan.heads, config.head_dim_of(tensor.layer));
      break;
    case TensorRole::kKvB:
      slice.rows = Scaled(plan.heads, config.latent()->nope_dim + config.latent()->value_dim);
      break;
    case TensorRole::kK:
    case TensorRole::kV:
    case TensorRole::kKBias:
    case TensorRole::kVBias:
      slice.rows = Scaled(KvHeadsOf(tensor.layer, config, plan), config.head_dim_of(tensor.layer));
      break;
    case TensorRole::kQNorm:
      slice.rows =
          QkNormRows(QkNormOf(tensor, config), plan.heads, config.head_dim_of(tensor.layer));
      break;
    case TensorRole::kKNorm:
      slice.rows = QkNormRows(QkNormOf(tensor, config), KvHeadsOf(tensor.layer, config, plan),
                              config.head_dim_of(tensor.layer));
      break;
    case TensorRole::kO:
      slice.columns = Scaled(plan.heads, config.value_dim(tensor.layer));
      break;
    case TensorRole::kGate:
    case TensorRole::kUp:
    case TensorRole::kGateBias:
    case TensorRole::kUpBias:
    case TensorRole::kSharedGate:
    case TensorRole::kSharedUp:
      slice.rows = MlpPartOf(tensor, config, plan).columns;
      break;
    case TensorRole::kDown:
    case TensorRole::kSharedDown:
      slice.columns = MlpPartOf(tensor, config, plan).columns;
      break;
    case TensorRole::kSinks:
      slice.rows = plan.heads;
      break;
    default:
      break;
  }
  return slice;
}

}  // namespace sluice
