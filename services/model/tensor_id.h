// Identifies one tensor of a model by its role, its layer and its expert. A plain value.
#pragma once

#include <compare>
#include <cstdint>

namespace sluice {

// What a tensor is for. Matrices are [outputs, inputs], row-major: y = W x. Sizes in an MLP are
// those of the layer's, F its columns.
enum class TensorRole : uint8_t {
  // Outside the layers.
  kEmbedding,      // [V, H]
  kFinalNorm,      // [H]
  kHead,           // [V, H]; reads the embedding where the two are tied
  kPositions,      // [position_offset + max_positions, H], learned
  kFinalNormBias,  // [H]
  kHeadBias,       // [V]
  // Of embeddings for each layer (SideSpec), side by side.
  kSideEmbedding,       // [V, L * S]
  kSideProjection,      // [L * S, H], of the token's embedding
  kSideProjectionNorm,  // [S], of what that makes for each layer
  // Of encoders: added to and applied to a token's embedding.
  kTokenTypes,         // [types, H]
  kEmbeddingNorm,      // [H]
  kEmbeddingNormBias,  // [H]
  // Of encoder-decoders, whose texts have the three above: those of the source.
  kSourcePositions,          // [position_offset + max_positions, H], learned
  kSourceEmbeddingNorm,      // [H]
  kSourceEmbeddingNormBias,  // [H]

  // In a decoder layer.
  kAttentionNorm,      // [H], before attention
  kQ,                  // [Nq * D, H]
  kK,                  // [Nkv * D, H]
  kV,                  // [Nkv * D, H]
  kO,                  // [H, Nq * D]
  kMlpNorm,            // [H], before the MLP
  kGate,               // [F, H]
  kUp,                 // [F, H]
  kDown,               // [H, F]
  kQBias,              // [Nq * D]
  kKBias,              // [Nkv * D]
  kVBias,              // [Nkv * D]
  kOBias,              // [H]
  kGateBias,           // [F]
  kUpBias,             // [F]
  kDownBias,           // [H]
  kAttentionNormBias,  // [H]
  kMlpNormBias,        // [H]
  kQNorm,              // [D], or as QkNormKind says
  kKNorm,              // [D], or as QkNormKind says
  kQNormBias,          // [D]
  kKNormBias,          // [D]
  kAttentionPostNorm,  // [H], of what attention adds to the residual stream
  kMlpPostNorm,        // [H], of what the MLP adds to it

  // Of mixtures of experts. Gates, ups, downs and their biases name an expert there.
  kRouter,       // [E, H]
  kRouterBias,   // [E]
  kChoiceBias,   // [E], added to scores for the choice alone
  kSharedGate,   // [F of the shared expert, H]
  kSharedUp,     // [F of the shared expert, H]
  kSharedDown,   // [H, F of the shared expert]
  kSharedScore,  // [1, H]: whose sigmoid weighs the shared expert

  kSinks,  // [Nq]

  // Of latent attention (LatentSpec), which has no K and V, and Q only where queries have no
  // latent. The input of O is then the values of all heads.
  kQA,       // [query_rank, H]
  kQANorm,   // [query_rank]
  kQB,       // [Nq * query_dim, query_rank]
  kKvA,      // [rank + rope_dim, H]: to the latent, and to the key that all heads share
  kKvANorm,  // [rank]
  kKvB,      // [Nq * (nope_dim + value_dim), rank]: each head's key, then its value
  kQABias,   // [query_rank]
  kKvABias,  // [rank + rope_dim]

  kQGate,  // [Nq * D, H]: of AttentionSpec::output_gate

  // Of layers with a state in place of keys and values (RecurrentSpec): K keys_width, W values_width,
  // M heads.
  kRecurrentQ,     // [K, H]
  kRecurrentK,     // [K, H]
  kRecurrentV,     // [W, H]
  kRecurrentGate,  // [W, H]
  kBeta,           // [M, H], of kGatedDelta
  kDecay,          // [M, H]: to what makes the state fade, or to time steps
  kConvQ,  // [K, conv_width], a row for each channel, whose last column is of the position itself
  kConvK,  // [K, conv_width]
  kConvV,  // [W, conv_width]
  kConvQBias,      // [K]
  kConvKBias,      // [K]
  kConvVBias,      // [W]
  kDecayBias,      // [M]
  kLogRate,        // [M]
  kSkip,           // [M], of kStateSpace
  kRecurrentNorm,  // [value_dim], or [W] of kStateSpace
  kRecurrentOut,   // [H, W]

  // Of MLPs beside experts (MixtureSpec::beside).
  kMixtureNorm,      // [H], before the experts
  kBesidePostNorm,   // [H], of what the MLP beside them makes
  kMixturePostNorm,  // [H], of what the experts make
  kRouterScale,      // [H]: the router reads the plain norm times this over the root of H
  kExpertFactors,    // [E]

  kSideGate,      // [S, H]
  kSideOut,       // [H, S]
  kSideNorm,      // [H], of what that makes
  kOutputFactor,  // [1], of all that leaves the layer

  kAttentionPostNormBias,  // [H]
  kMlpPostNormBias,        // [H]

  kRelativeBias,     // [buckets, Nq]: of RelativeSpec, the same in all layers of a side
  kLeavingNorm,      // [H]
  kLeavingNormBias,  // [H]
  // Of layers that read the source: attention to it.
  kCrossNorm,          // [H], before it
  kCrossNormBias,      // [H]
  kCrossPostNorm,      // [H], after it
  kCrossPostNormBias,  // [H]
  kCrossQ,             // [Nq * D, H]
  kCrossK,             // [Nkv * D, H], of the source
  kCrossV,             // [Nkv * D, H], of the source
  kCrossO,             // [H, Nq * D]
  kCrossQBias,         // [Nq * D]
  kCrossKBias,         // [Nkv * D]
  kCrossVBias,         // [Nkv * D]
  kCrossOBias,         // [H]
};
inline constexpr TensorRole kFirstLayerRole = TensorRole::kAttentionNorm;
inline constexpr int kNumTensorRoles = static_cast<int>(TensorRole::kCrossOBias) + 1;

struct TensorId {
  TensorRole role = TensorRole::kEmbedding;
  int layer = -1;   // in [0, L); -1 of roles outside the layers
  int expert = -1;  // of the layer's mixture of experts; -1 outside one

  friend constexpr auto operator<=>(const TensorId&, const TensorId&) = default;
};

}  // namespace sluice
