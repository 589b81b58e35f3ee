// The weights of one decoder layer that a shard holds, in memory of a backend. Immutable once
// loaded; the backend must outlive them.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/backend.h"
#include "kernels/expert_ops.h"
#include "services/model/model_config.h"
#include "services/model/shard_plan.h"
#include "services/model/weights.h"

namespace sluice {

// A vector of floats, or none (a layer without biases).
struct FloatVector {
  std::unique_ptr<Buffer> memory;

  bool empty() const { return memory == nullptr; }
  const float* data() const { return static_cast<const float*>(memory->data()); }
  const float* data_or_null() const { return empty() ? nullptr : data(); }
  size_t size_bytes() const { return empty() ? 0 : memory->size_bytes(); }
};

// A norm's, [H] or [D]. LayerNorms may lack a bias, RMSNorms do.
struct NormWeights {
  FloatVector weight;
  FloatVector bias;
};

// A matrix for each head of the rank.
class HeadMatrices {
 public:
  void Add(std::unique_ptr<PackedMatrix> matrix) {
    pointers_.push_back(matrix.get());
    matrices_.push_back(std::move(matrix));
  }
  absl::Span<const PackedMatrix* const> all() const { return pointers_; }

 private:
  std::vector<std::unique_ptr<PackedMatrix>> matrices_;
  std::vector<const PackedMatrix*> pointers_;
};

// Latent attention (LatentSpec), absorbed: instead of latents to keys, queries are mapped to
// latents, and instead of latents to values what attention makes of them. Nq are the rank's heads.
struct LatentWeights {
  // To the latent of queries [query_rank, H] or, where they have none, to queries [Nq * query_dim,
  // H].
  std::unique_ptr<PackedMatrix> q_in;
  FloatVector q_in_bias;
  FloatVector q_norm;                  // [query_rank]
  std::unique_ptr<PackedMatrix> q_b;   // [Nq * query_dim, query_rank]
  std::unique_ptr<PackedMatrix> kv_a;  // [stored_dim, H]
  FloatVector kv_a_bias;
  FloatVector kv_norm;      // [rank]
  HeadMatrices key_maps;    // [rank, nope_dim] each
  HeadMatrices value_maps;  // [value_dim, rank] each
};

// A layer with a state in place of keys and values (RecurrentSpec); K, W and M are the rank's.
struct RecurrentWeights {
  RecurrentSpec spec;
  std::unique_ptr<PackedMatrix> mixed;  // [2 K + W, H]: queries, keys, values
  std::unique_ptr<PackedMatrix> gate;   // [W, H]
  std::unique_ptr<PackedMatrix> beta;   // [M, H], of kGatedDelta
  std::unique_ptr<PackedMatrix> decay;  // [M, H]
  FloatVector conv;                     // [conv_width, 2 K + W]
  FloatVector conv_bias;                // [2 K + W]
  FloatVector decay_bias, log_rate;     // [M]
  FloatVector skip;                     // [M], of kStateSpace
  FloatVector norm;                     // [value_dim], or [W] of kStateSpace
  std::unique_ptr<PackedMatrix> out;    // [H, W]: a partial sum, cut into the plan's slices
};

// Dimensions of the rank: Nq and Nkv are its heads, F its columns of the layer's MLP. Matrices that
// read the same rows are fused, so that one product computes them.
struct AttentionWeights {
  AttentionSpec spec;
  std::unique_ptr<PackedMatrix> qkv;  // [(Nq + 2 Nkv) * D, H]: q, then k, then v
  FloatVector qkv_bias;               // as qkv's outputs
  // Of layers with QK-norm: [D], or by the rank's heads as QkNormKind says; biases [D].
  FloatVector q_norm, k_norm, q_norm_bias, k_norm_bias;
  // With a latent: what there is in place of the above, null otherwise.
  std::unique_ptr<LatentWeights> latent;
  std::unique_ptr<PackedMatrix> gate;  // [Nq * D, H], with an output gate
  // In place of all that, null otherwise.
  std::unique_ptr<RecurrentWeights> recurrent;
  std::unique_ptr<PackedMatrix> o;  // [H, values]: a partial sum, cut into the plan's slices
  FloatVector o_bias;               // [H], added once, after the ranks' sum
  FloatVector sinks;                // [Nq], of layers with sinks
  // Of the layer's heads on this rank; D.
  int num_kv_heads = 0;
  int head_dim = 0;
  FloatVector value_norm;  // [D], ones, of layers that normalise values
  // DistanceBias::values of layers with relative positions, with a reach of RelativeSpec::max_distance.
  FloatVector distance_bias;
};

// Attention to a source, with the heads of the layer's own attention.
struct CrossWeights {
  NormWeights norm, post_norm;  // [H], before and after it, as LayerNorms has those of attention
  std::unique_ptr<PackedMatrix> q;   // [Nq * D, H]
  std::unique_ptr<PackedMatrix> kv;  // [2 Nkv * D, H]: of the source's rows
  std::unique_ptr<PackedMatrix> o;   // [H, Nq * D]: a partial sum, cut into the plan's slices
  FloatVector q_bias, kv_bias;       // as their outputs
  FloatVector o_bias;                // [H], added once, after the ranks' sum

  size_t vector_bytes() const;
};

struct DenseMlpWeights {
  DenseMlpSpec spec;
  std::unique_ptr<PackedMatrix> gate_up;  // [2F, H], gated: gate, then up; without a gate [F, H]
  FloatVector gate_up_bias;               // as gate_up's outputs
  std::unique_ptr<PackedMatrix> down;     // [H, F]: a partial sum, cut into the plan's slices
  FloatVector down_bias;                  // [H], added once, after the ranks' sum
};

// F is the rank's columns of an expert, Fs of the shared one.
struct MixtureWeights {
  MixtureSpec spec;
  std::unique_ptr<PackedMatrix> router;     // [E, H], the same on every rank
  FloatVector router_bias;                  // [E]
  FloatVector choice_bias;                  // [E]
  std::unique_ptr<ExpertMatrices> gate_up;  // of each expert as DenseMlpWeights has it
  FloatVector gate_up_bias;                 // [E, 2F] or, without a gate, [E, F]
  std::unique_ptr<ExpertMatrices> down;
  FloatVector down_bias;  // [E, H], on the first rank alone
  // Of the shared expert; null where there is none.
  std::unique_ptr<PackedMatrix> shared_gate_up;
  std::unique_ptr<PackedMatrix> shared_down;
  std::unique_ptr<PackedMatrix> shared_score;  // [1, H]
  // Of an MLP beside the experts; empty where there is none.
  DenseMlpWeights beside;
  FloatVector mixture_norm, beside_post_norm, mixture_post_norm;  // [H]
  FloatVector router_norm;     // [H]: the weights of the norm that the router reads
  FloatVector expert_factors;  // [E]
};

struct NoMlpWeights {};

// An alternative for each of MlpSpec.
using MlpWeights = std::variant<DenseMlpWeights, MixtureWeights, NoMlpWeights>;

struct LayerWeights {
  NormWeights attention_norm;  // [H], before attention
  AttentionWeights attention;
  NormWeights mlp_norm;  // [H], before the MLP
  MlpWeights mlp;
  NormWeights attention_post_norm, mlp_post_norm;  // [H], as LayerNorms has them
  NormWeights leaving_norm;                        // [H]
  std::unique_ptr<CrossWeights> cross;             // null where the layer attends to no source
  // LayerSpec's. Norms that it lacks are empty.
  bool parallel_residual = false;
  LayerNorms norms;
  LayerSpec::Reads reads = LayerSpec::Reads::kText;
  float residual_multiplier = 1;
  // Of embeddings for each layer; null where there are none.
  std::unique_ptr<PackedMatrix> side_gate;  // [S, H]
  std::unique_ptr<PackedMatrix> side_out;   // [H, S]
  NormWeights side_norm;                    // [H]
  Activation side_activation = Activation::kGeluTanh;
  float output_factor = 1;

  bool has_mlp() const { return !std::holds_alternative<NoMlpWeights>(mlp); }
  // The norm of what the layer's first branch reads; null where it reads the residual stream.
  const NormWeights* first_norm() const {
    if (!attention.spec.absent) return norms.before_attention ? &attention_norm : nullptr;
    return norms.before_mlp ? &mlp_norm : nullptr;
  }

  // Those that Gemm multiplies with, and all.
  std::vector<const PackedMatrix*> matrices() const;
  size_t size_bytes() const;
};

// Reads the plan's slices of `layer` through `source`, a few rows at a time, so that no second copy
// of a matrix is ever held. Each is kept in the format that FormatOf gives it where the
// weights of `wanted` were asked for, and multiplied with the activations of `wanted` where there are
// such products. Errors as WeightSource::Read, or RESOURCE_EXHAUSTED.
absl::StatusOr<LayerWeights> LoadLayerWeights(const ModelConfig& config, const ShardPlan& plan,
                                              const WeightSource& source, int layer,
                                              const MatrixFormat& wanted, Backend& backend);

}  // namespace sluice
