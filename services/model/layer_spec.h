// How one decoder layer computes: attention and an MLP, each of which reads a norm of the residual
// stream and adds to it. A plain value; ModelConfig has one for each layer, so that layers of one
// model may differ in any of it.
#pragma once

#include <optional>
#include <variant>

#include "kernels/activation.h"

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

struct AttentionSpec {
  float scale = 0;  // of query-key products, > 0; mostly 1 / sqrt(D)
  int window = 0;   // newest positions a query sees, its own included, >= 1; 0: all
  // ModelConfig::ropes[*rope] rotates queries and keys; none: no rotation.
  std::optional<int> rope;
  bool qk_norm = false;   // RMSNorm of every query and key head by itself, before it is rotated
  bool qkv_bias = false;  // on the query, key and value projections
  bool o_bias = false;    // on the output projection
  // None: queries, keys and values by head. Of all layers of a model or of none.
  std::optional<LatentSpec> latent;
};

// down(activation(gate(x)) * up(x)), or down(activation(up(x))) without a gate.
struct DenseMlpSpec {
  int width = 0;  // F, columns, >= 1
  Activation activation = Activation::kSilu;
  bool gated = true;
  bool bias = false;  // on gate, up and down
};

// The kinds of MLP. Code that depends on the kind visits it, so that the compiler reports every
// place that a further kind concerns.
using MlpSpec = std::variant<DenseMlpSpec>;

struct LayerSpec {
  AttentionSpec attention;
  MlpSpec mlp;
  bool parallel_residual = false;  // attention and MLP both read the layer's input
};

// REQUIRES: the layer's MLP is dense.
inline DenseMlpSpec& DenseMlpOf(LayerSpec& layer) { return std::get<DenseMlpSpec>(layer.mlp); }
inline const DenseMlpSpec& DenseMlpOf(const LayerSpec& layer) {
  return std::get<DenseMlpSpec>(layer.mlp);
}

}  // namespace sluice
