// How one decoder layer computes: attention and an MLP, each of which reads a norm of the residual
// stream and adds to it. A plain value; ModelConfig has one for each layer, so that layers of one
// model may differ in any of it.
#pragma once

#include <cstdint>
#include <optional>
#include <variant>

#include "kernels/activation.h"
#include "kernels/routing.h"

namespace sluice {

// Latent attention (DeepSeek-AI 2024, "DeepSeek-V2"): the keys and values of all heads are linear
// functions of one latent of a position, but for a rotated part of the key, which all heads share.
// What is cached of a position is the latent and that part. Sizes are of one head where there are
// several.
struct LatentSpec {
  int query_rank = 0;  // numbers of the latent that queries are a function of; 0: they have none
  int rank = 0;        // numbers of the latent of keys and values; even, >= 2
  int nope_dim = 0;    // elements of a query or key that are not rotated, >= 1
  int rope_dim = 0;    // elements that are; even, >= 2
  int value_dim = 0;   // elements of a value, >= 1
  float norm_eps = 1e-6F;  // of the norms of both latents
  bool bias = false;       // on the projections to both latents

  int query_dim() const { return nope_dim + rope_dim; }
  int stored_dim() const { return rank + rope_dim; }  // numbers cached of a position
};

// A layer with a state of fixed size in place of keys and values. Each head has a memory S
// [key_dim, value_dim], which every position lets fade, writes to and reads:
//   S = exp(g) S + k w^T; its output is S^T q.
enum class RecurrenceKind : uint8_t {
  // w = beta (v - S^T k) (Yang, Kautz, Hatamizadeh 2024, "Gated Delta Networks"). Queries and keys
  // have length 1; outputs are normed by head and then gated.
  kGatedDelta,
  // w = the time step times v (Dao, Gu 2024, "Mamba-2"). Outputs are gated and then normed.
  kStateSpace,
};

struct RecurrentSpec {
  RecurrenceKind kind = RecurrenceKind::kGatedDelta;
  int num_heads = 0;      // >= 1
  int num_key_heads = 0;  // of queries and keys; divides num_heads
  int key_dim = 0;        // >= 1
  int value_dim = 0;      // >= 1
  int conv_width = 0;     // positions that the convolution before it sees, its own included; >= 2
  bool conv_bias = false;
  float norm_eps = 0;
  // Of kStateSpace.
  float least_step = 0;  // time steps are clamped
  float most_step = 0;
  int norm_groups = 1;  // runs of output columns that are normed together; divides num_heads

  int keys_width() const { return num_key_heads * key_dim; }
  int values_width() const { return num_heads * value_dim; }
};

// What normalises queries and keys, before they are rotated.
enum class QkNormKind : uint8_t {
  kHeadRms,       // RMSNorm of every head by itself; all heads share weights [D]
  kPlainHeadRms,  // the same without weights, to which rotation makes no difference
  kWholeRms,      // RMSNorm of all heads of a row as one vector; weights [Nq * D] and [Nkv * D]
  kHeadLayer,     // LayerNorm of every head by itself; all heads share weights and biases [D]
  kOwnHeadLayer,  // LayerNorm without biases of every head by itself; weights [Nq, D] and [Nkv, D]
};

// The query of position p is multiplied by 1 + beta * log(1 + floor((p + offset) / unit)).
struct QueryGrowth {
  float beta = 0;
  int unit = 1;  // positions, >= 1
  int offset = 0;
};

// What is added to a scaled score for how far a key lies from its query (Raffel et al. 2020, "T5"): one
// number for each head and bucket of distances. Where queries see later positions, half of the buckets
// are of keys behind the query. Half of a side's buckets hold one distance each; the rest grow by equal
// factors up to max_distance, and the last one holds all beyond.
struct RelativeSpec {
  int buckets = 0;       // >= 2, and a multiple of 4 where queries see later positions
  int max_distance = 0;  // above the distances that have a bucket of their own
};

// AttentionSpec::ahead of attention without a limit.
inline constexpr int kAllAhead = 1 << 28;

struct AttentionSpec {
  float scale = 0;  // of query-key products, > 0; mostly 1 / sqrt(D)
  int window = 0;   // newest positions a query sees, its own included, >= 1; 0: all
  // Positions after its own that a query sees too, as far as its text has them: of encoders, whose
  // texts are never cut. kAllAhead: all of them; 0: none.
  int ahead = 0;
  // A scaled score s becomes softcap * tanh(s / softcap), > 0; 0: it stays as it is.
  float softcap = 0;
  std::optional<QueryGrowth> growth;  // applied after the rotation; none: queries stay as they are
  // ModelConfig::ropes[*rope] rotates queries and keys; none: no rotation.
  std::optional<int> rope;
  bool qk_norm = false;  // queries and keys are normalised, as qk_norm_kind says
  QkNormKind qk_norm_kind = QkNormKind::kHeadRms;
  bool qkv_bias = false;  // on the query, key and value projections
  bool o_bias = false;    // on the output projection
  float clip = 0;      // queries, keys and values are clamped to -clip .. clip, > 0; 0: they stay
  int chunk = 0;       // positions, >= 1: a query sees those of its own run of so many; 0: all
  bool sinks = false;  // each head has a score that takes part in the softmax and has no value
  std::optional<RelativeSpec> relative;  // REQUIRES: no rotation, no window
  // Of this layer's heads, where they are not the model's; 0: ModelConfig's. REQUIRES: no latent.
  int head_dim = 0;
  int num_kv_heads = 0;
  bool keys_as_values = false;  // values are what keys are before their norm
  bool value_norm = false;      // every head's values are normalised as kPlainHeadRms does it
  // The earlier layer of equal heads whose keys and values this one reads, having none of its own; -1:
  // its own.
  int kv_source = -1;
  // None: queries, keys and values by head. Of all layers of a model or of none.
  std::optional<LatentSpec> latent;
  // Multiplies what heads make of values by the sigmoid of a product of what queries are made of.
  bool output_gate = false;
  // In place of attention; nothing else of this struct counts then. Equal in all layers that have it.
  std::optional<RecurrentSpec> recurrent;
  bool absent = false;  // the layer is an MLP alone; nothing else of this struct counts then

  bool has_keys() const { return !recurrent.has_value() && !absent; }
};

// down(activation(gate(x)) * up(x)), or down(activation(up(x))) without a gate.
struct DenseMlpSpec {
  int width = 0;  // F, columns, >= 1
  Activation activation = Activation::kSilu;
  bool gated = true;
  bool squared = false;  // what the activation gives is squared (So et al. 2021); of ungated ones
  bool bias = false;     // on gate, up and down
  GatedClamp clamp;      // of Activation::kClampedSwiGlu
};

// How a row's experts are chosen: RouteParams (kernels/routing.h) says what each field means.
struct RouterSpec {
  int num_experts = 0;  // E, >= 1
  int num_chosen = 0;   // k, in [1, E]
  bool bias = false;    // on the router's outputs
  RouterScores scores = RouterScores::kSoftmax;
  bool choice_bias = false;
  int num_groups = 1;
  int num_kept_groups = 1;
  int num_best_of_group = 1;
  bool normalised = false;
  float least_sum = 0;
  float factor = 1;
};

// The sum of a few experts' results, each times its weight, and of the shared expert's.
struct MixtureSpec {
  RouterSpec router;
  DenseMlpSpec expert;         // every one of them
  bool weighs_inputs = false;  // weights are of what experts read instead of their results
  int shared_width = 0;        // columns of an expert that takes part in every row; 0: none
  bool shared_score = false;   // whose weight is the sigmoid of a product
  // An MLP beside the experts. It reads what LayerNorms::before_mlp says; the experts read a norm of
  // the residual stream of their own, and the router one that is scaled. Both results are normalised
  // before they are added.
  std::optional<DenseMlpSpec> beside;
  bool expert_factors = false;  // each expert's weight is multiplied by a factor of the expert
};

// The layer is attention alone.
struct NoMlpSpec {};

// The kinds of MLP. Code that depends on the kind visits it, so that the compiler reports every
// place that a further kind concerns.
using MlpSpec = std::variant<DenseMlpSpec, MixtureSpec, NoMlpSpec>;

// Which norms [H] a layer has, of ModelConfig::norm's kind.
struct LayerNorms {
  bool before_attention = true;  // without it, attention reads the residual stream itself
  // Without it the MLP reads the residual stream itself or, in a layer with parallel branches, what
  // attention reads.
  bool before_mlp = true;
  bool after_attention = false;  // of what attention adds to the residual stream
  bool after_mlp = false;        // of what the MLP adds to it
  // The two norms after branches are of the residual stream once the branch is added, which they
  // replace ("post-norm", Vaswani et al. 2017), instead of the branch.
  bool of_sum = false;
  bool leaving = false;  // of the residual stream that leaves the layer, which the norm replaces
};

// A narrow embedding of the token for each layer (Gemma Team 2025), which a gate of the layer's state
// weighs: state += norm(out(activation(gate(state)) * embedding)). All layers have one, equally wide,
// or none.
struct SideSpec {
  int width = 0;  // S, >= 1
  Activation activation = Activation::kGeluTanh;
};

struct LayerSpec {
  AttentionSpec attention;
  MlpSpec mlp;
  bool parallel_residual = false;  // attention and MLP both read the layer's input
  LayerNorms norms;
  float residual_multiplier = 1;  // of what attention and MLP add, after its norm
  std::optional<SideSpec> side;   // added after the MLP
  bool output_factor = false;     // what leaves the layer is multiplied by a number of the files'
  // Of encoder-decoders (SourceSpec): a layer of the source, or one that between attention and MLP
  // attends to the source as well, with heads, biases and norms as its attention has them.
  enum class Reads : uint8_t { kText, kSource, kTextAndSource };
  Reads reads = Reads::kText;
};

// Null where the layer's MLP is no mixture.
inline const MixtureSpec* MixtureOf(const LayerSpec& layer) {
  return std::get_if<MixtureSpec>(&layer.mlp);
}

inline bool HasMlp(const LayerSpec& layer) { return !std::holds_alternative<NoMlpSpec>(layer.mlp); }

// REQUIRES: the layer's MLP is dense.
inline DenseMlpSpec& DenseMlpOf(LayerSpec& layer) { return std::get<DenseMlpSpec>(layer.mlp); }
inline const DenseMlpSpec& DenseMlpOf(const LayerSpec& layer) {
  return std::get<DenseMlpSpec>(layer.mlp);
}

}  // namespace sluice
