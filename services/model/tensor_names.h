// Tensor names of each model family, and their arrangement in files. Plain tables of constants.
#pragma once

#include <cstdint>

namespace sluice {

// Rows of a projection that files keep together with others.
enum class Fusion : uint8_t {
  kNone,     // a tensor for each
  kStacked,  // one below the other: q, k, v; or gate, up
  kByHead,   // the queries of KV head 0, its k and its v, then those of KV head 1, ...
};

// How files keep the projections of layers with a state in place of keys and values. The channels of
// the convolution are one tensor always: those of queries, keys and values, or as kMamba has them.
enum class RecurrentFusion : uint8_t {
  kQkv,  // queries, keys and values one below the other; gates, betas and decays by themselves
  kByKeyHead,  // of key head 0 its query, key, values and gates, then those of key head 1, ...; and
               // likewise its betas and decays
  kMamba,      // gates, values, keys, queries, time steps one below the other
  kQkvPairs,   // as kQkv, but betas and decays as in kByKeyHead
  kQkvTiled,  // as kQkv, with heads in another order: the first one of each key head, then the second
              // ones, ...
};

// Experts that files keep in one tensor; their biases are [E, outputs].
enum class ExpertStack : uint8_t {
  kNone,         // tensors for each
  kHalves,       // [E, inputs, outputs]; gates and ups in one: all gates, then all ups
  kAlternating,  // [E, inputs, outputs]; gate 0, up 0, gate 1, ...
  kRows,         // [E, outputs, inputs]; all gates, then all ups; without biases
  kModules,      // [E, outputs, inputs]; gates, ups and downs apart, under the experts' names
};

// Every name is a module's: its tensors are called "<name>.weight" and "<name>.bias". nullptr: no
// model of the family has it. Fused projections share a name. In the name of a norm of queries or
// keys "$1" stands for the head's index: each head has a tensor of its own.
struct TensorNames {
  // Outside the layers. The head of a model with tied embeddings is the embedding, which some files
  // store under the head's name.
  const char* embedding = nullptr;
  const char* positions = nullptr;  // learned ones
  const char* final_norm = nullptr;
  const char* head = nullptr;

  const char* side_embedding = nullptr;
  const char* side_projection = nullptr;
  const char* side_projection_norm = nullptr;
  // Of encoders.
  const char* token_types = nullptr;
  const char* embedding_norm = nullptr;
  // Of encoder-decoders: those of the source, whose layers have the names of `source_layers`.
  const char* source_positions = nullptr;
  const char* source_embedding_norm = nullptr;
  const TensorNames* source_layers = nullptr;
  const char* head_bias =
      nullptr;  // the tensor's own name, stored as [1, V]; null: the head's bias

  // Inside a layer, below `layer`. "$0" stands for the layer's index, "$1" for the expert's.
  const char* layer = nullptr;
  const char* attention_norm = nullptr;
  const char* q = nullptr;
  const char* k = nullptr;
  const char* v = nullptr;
  const char* q_norm = nullptr;
  const char* k_norm = nullptr;
  const char* o = nullptr;
  // Of latent attention.
  const char* q_a = nullptr;
  const char* q_a_norm = nullptr;
  const char* q_b = nullptr;
  const char* kv_a = nullptr;
  const char* kv_a_norm = nullptr;
  const char* kv_b = nullptr;
  // In place of kv_b, of each head a matrix: its keys [rank, keys], transposed, and its values
  // [values, rank].
  const char* k_b = nullptr;
  const char* v_b = nullptr;
  const char* mlp_norm = nullptr;
  const char* gate = nullptr;
  const char* up = nullptr;
  const char* down = nullptr;
  const char* attention_post_norm = nullptr;
  const char* mlp_post_norm = nullptr;
  const char* up_alone = nullptr;  // where there is no gate; null: as `up`
  const char* cross_norm = nullptr;
  const char* cross_post_norm = nullptr;
  const char* cross_q = nullptr;
  const char* cross_k = nullptr;
  const char* cross_v = nullptr;
  const char* cross_o = nullptr;
  // Not below `layer`: all layers of a side have the same, the last one alone.
  const char* relative_bias = nullptr;
  const char* leaving_norm = nullptr;

  // Of mixtures of experts.
  const char* router = nullptr;
  const char* choice_bias = nullptr;  // the tensor's own name
  const char* expert_gate = nullptr;
  const char* expert_up = nullptr;
  const char* expert_down = nullptr;
  const char* shared_gate = nullptr;
  const char* shared_up = nullptr;
  const char* shared_down = nullptr;
  const char* shared_score = nullptr;
  // Of all experts together, the tensors' own names; their biases have "_bias" behind them. Files of
  // `sluice quantize` have tensors for each, as other families' files do.
  const char* stacked_gate_up = nullptr;
  const char* stacked_down = nullptr;
  const char* sinks = nullptr;  // the tensor's own name
  // Of layers with a state in place of keys and values.
  const char* recurrent_qkv = nullptr;
  const char* recurrent_gate = nullptr;
  const char* beta = nullptr;
  const char* decay = nullptr;
  const char* conv = nullptr;
  const char* decay_bias = nullptr;  // the tensor's own name, as the next two
  const char* log_rate = nullptr;
  const char* skip = nullptr;
  const char* recurrent_norm = nullptr;
  const char* recurrent_out = nullptr;
  RecurrentFusion recurrent = RecurrentFusion::kQkv;
  // Of MLPs beside experts.
  const char* mixture_norm = nullptr;
  const char* beside_post_norm = nullptr;
  const char* mixture_post_norm = nullptr;
  const char* router_scale = nullptr;    // the tensor's own name
  const char* expert_factors = nullptr;  // the tensor's own name
  const char* output_factor = nullptr;   // the tensor's own name
  // Of embeddings for each layer.
  const char* side_gate = nullptr;
  const char* side_out = nullptr;
  const char* side_norm = nullptr;

  Fusion qkv = Fusion::kNone;
  Fusion gate_up = Fusion::kNone;
  ExpertStack experts = ExpertStack::kNone;
  bool rates_are_negative = false;      // log_rate holds minus the rates themselves
  bool conv_is_matrix = false;          // stored as [channels, width], without a dimension of 1
  bool choice_bias_is_row = false;      // stored as [1, E]
  bool shared_score_is_vector = false;  // stored as [H]
  bool transposed = false;              // projections are stored as [inputs, outputs]
  // Rows i and i + D / 2 of each head of q and k, biases as well, are neighbours, as a rotation of
  // neighbouring pairs wants them.
  bool paired_rows = false;
  // Some files leave it out of every name but the head's.
  const char* optional_prefix = "";
};

}  // namespace sluice
