// How one decoder layer computes: attention and an MLP, each of which reads a norm of the residual
// stream and adds to it. A plain value; ModelConfig has one for each layer, so that layers of one
// model may differ in any of it.
#pragma once

#include <cstdint>
#include <optional>
#include <variant>

#include "kernels/activation.h"

namespace sluice {

// What normalises queries and keys, before they are rotated.
enum class QkNormKind : uint8_t {
  kHeadRms,       // RMSNorm of every head by itself; all heads share weights [D]
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

struct AttentionSpec {
  float scale = 0;  // of query-key products, > 0; mostly 1 / sqrt(D)
  int window = 0;   // newest positions a query sees, its own included, >= 1; 0: all
  // A scaled score s becomes softcap * tanh(s / softcap), > 0; 0: it stays as it is.
  float softcap = 0;
  std::optional<QueryGrowth> growth;  // applied after the rotation; none: queries stay as they are
  // ModelConfig::ropes[*rope] rotates queries and keys; none: no rotation.
  std::optional<int> rope;
  bool qk_norm = false;  // queries and keys are normalised, as qk_norm_kind says
  QkNormKind qk_norm_kind = QkNormKind::kHeadRms;
  bool qkv_bias = false;  // on the query, key and value projections
  bool o_bias = false;    // on the output projection
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

// Which norms [H] a layer has, of ModelConfig::norm's kind.
struct LayerNorms {
  bool before_attention = true;  // without it, attention reads the residual stream itself
  // Without it the MLP reads the residual stream itself or, in a layer with parallel branches, what
  // attention reads.
  bool before_mlp = true;
  bool after_attention = false;  // of what attention adds to the residual stream
  bool after_mlp = false;        // of what the MLP adds to it
};

struct LayerSpec {
  AttentionSpec attention;
  MlpSpec mlp;
  bool parallel_residual = false;  // attention and MLP both read the layer's input
  LayerNorms norms;
  float residual_multiplier = 1;  // of what attention and MLP add, after its norm
};

// REQUIRES: the layer's MLP is dense.
inline DenseMlpSpec& DenseMlpOf(LayerSpec& layer) { return std::get<DenseMlpSpec>(layer.mlp); }
inline const DenseMlpSpec& DenseMlpOf(const LayerSpec& layer) {
  return std::get<DenseMlpSpec>(layer.mlp);
}

}  // namespace sluice
