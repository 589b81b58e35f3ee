// The activations of one step of a shard, in one allocation made at load time for the largest step:
// nothing is allocated while serving. A matrix lies at one place whatever the step, so that a
// backend may record what works on it. Immutable; the thread that computes a step owns the
// contents.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "kernels/backend.h"

namespace sluice {

// What latent attention takes besides, 0 without it. Nq are the rank's heads.
struct LatentStepShape {
  int64_t query_rank = 0;      // or 0 where queries have no latent
  int64_t stored_dim = 0;      // cached of a position
  int64_t absorbed_width = 0;  // Nq * stored_dim
  int64_t mixed_width = 0;     // Nq * the latent's rank
};

// What layers with a state in place of keys and values take, 0 without them. K, W and M are the rank's.
struct RecurrentStepShape {
  int64_t channels = 0;  // 2 K + W
  int64_t values = 0;    // W
  int64_t heads = 0;     // M
};

// Sizes of a step on one rank, all >= 1 where nothing else is said.
struct StepShape {
  int64_t max_rows = 0;     // of the largest step
  int64_t hidden = 0;       // H
  int64_t query_width = 0;  // Nq * D of the rank
  int64_t kv_width = 0;     // Nkv * D of the rank; 0 with latent attention
  int64_t value_width = 0;  // of what the output projection reads
  LatentStepShape latent;
  RecurrentStepShape recurrent;
  int64_t gate_width = 0;  // of attention's output gate; 0: none
  int64_t mlp_width = 0;   // F of the rank, of the widest layer
  // Of mixtures of experts, of the largest; 0 where there are none.
  int num_experts = 0;       // E
  int num_chosen = 0;        // k
  int64_t expert_width = 0;  // k * F of the rank
  int64_t shared_width = 0;  // F of the shared expert of the rank
  int64_t side_width = 0;    // S, of embeddings for each layer; 0 where there are none
  int num_ranks = 1;
  bool has_branch = false;         // something is done to what attention or MLP adds
  bool has_two_branches = false;   // an MLP and experts beside it are normalised each by itself
  bool has_squares = false;        // norms of queries and keys take all heads at once
  bool has_query_factors = false;  // queries are multiplied by a factor of their position
  bool has_sources = false;        // rows of sources and of texts are computed apart
  DType operand_dtype = DType::kF32;
};

// Of latent attention. q, kv and q_latent share memory with `mixed`, and `absorbed` with what the
// output projection reads: none is needed once its successor is made.
struct LatentViews {
  MatrixView q_latent;         // [T, query_rank]
  MatrixView q_latent_normed;  // [T, query_rank], operand
  MatrixView q;                // [T, Nq * query_dim]
  MatrixView kv;               // [T, stored_dim]
  MatrixView absorbed;         // [T, Nq * stored_dim]: queries as they meet what is cached
  MatrixView mixed;            // [T, Nq * rank], operand: what attention makes of latents
};

// Of layers with a state in place of keys and values.
struct RecurrentViews {
  MatrixView mixed;     // [T, 2 K + W]
  MatrixView gate;      // [T, W]
  MatrixView beta;      // [T, M]
  MatrixView decay;     // [T, M]
  MatrixView attended;  // [T, W], operand
};

// Matrices of T rows, F32 but for operands of products, which have the backend's operand dtype. The
// activations of attention and MLP share memory: a layer computes one after the other.
struct StepViews {
  MatrixView normed;   // [T, H], operand
  MatrixView partial;  // [T, H] without gaps, with the memory that RankGroup::Sum asks for
  // Attention.
  MatrixView qkv;       // [T, (Nq + 2 Nkv) * D]
  MatrixView attended;  // [T, values of all heads], operand
  LatentViews latent;
  RecurrentViews recurrent;
  MatrixView output_gate;  // [T, Nq * D]
  // Of models that need them, see StepShape.
  MatrixView branch;         // [T, H]: what attention or MLP adds, before it is added
  MatrixView second_branch;  // [T, H]: what experts add beside an MLP
  MatrixView squares;        // [T, 2] with the memory that RankGroup::Sum asks for: of the rank's
                             // queries and of its keys, sums of squares
  MatrixView all_squares;    // [T, 2]: the same of all ranks
  MatrixView query_factors;  // [T, 1]
  MatrixView zeros;          // [T, H], of several ranks: nothing writes it
  MatrixView apart;          // [T, H]: rows of sources, then those of texts
  // Of embeddings for each layer.
  MatrixView side_input;  // [T, S], of one layer
  MatrixView side_gate;   // [T, S]
  // MLP.
  MatrixView activated;  // [T, F], operand
  // Mixture of experts.
  MatrixView router_outputs;    // [T, E]
  MatrixView routing;           // memory of a Routing of T rows
  MatrixView expert_activated;  // [T, k * F], operand: memory of [T * k, F]
  MatrixView shared_activated;  // [T, F of the shared expert], operand
  MatrixView shared_scores;     // [T, 1]
};

class StepArena {
 public:
  // RESOURCE_EXHAUSTED where the backend lacks memory.
  static absl::StatusOr<StepArena> Create(const StepShape& shape, Backend& backend);

  // REQUIRES: 1 <= rows <= max_rows.
  StepViews Views(int64_t rows) const;

  size_t size_bytes() const { return memory_->size_bytes(); }

 private:
  StepArena(const StepViews& largest, std::unique_ptr<Buffer> memory)
      : largest_(largest), memory_(std::move(memory)) {}

  StepViews largest_;
  std::unique_ptr<Buffer> memory_;
};

}  // namespace sluice
