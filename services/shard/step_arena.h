// The activations of one step of a shard, in one allocation made at load time for the largest step:
// nothing is allocated while serving. Immutable; whoever computes a step owns the contents.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "kernels/backend.h"

namespace sluice {

// Sizes of a step on one rank, all >= 1 but for rope_pairs.
struct StepShape {
  int64_t max_rows = 0;     // of the largest step
  int64_t hidden = 0;       // H
  int64_t query_width = 0;  // Nq * D of the rank
  int64_t kv_width = 0;     // Nkv * D of the rank
  int64_t mlp_width = 0;    // F of the rank
  int64_t rope_pairs = 0;   // of a head; 0 without rotary positions
  int num_ranks = 1;
};

// F32 matrices of T rows. The activations of attention and MLP share memory: a layer computes one
// after the other.
struct StepViews {
  MatrixView cos, sin;  // [T, rope_pairs], for all layers
  MatrixView normed;    // [T, H]
  MatrixView partial;   // [T, H] without gaps, with the memory that TreeReducer asks for
  // Attention.
  MatrixView qkv;       // [T, (Nq + 2 Nkv) * D]
  MatrixView attended;  // [T, Nq * D]
  // MLP.
  MatrixView activated;  // [T, F]
};

class StepArena {
 public:
  // RESOURCE_EXHAUSTED where the backend lacks memory.
  static absl::StatusOr<StepArena> Create(const StepShape& shape, Backend& backend);

  // REQUIRES: 1 <= rows <= max_rows.
  StepViews Views(int64_t rows) const;

  size_t size_bytes() const { return memory_->size_bytes(); }

 private:
  StepArena(const StepShape& shape, std::unique_ptr<Buffer> memory)
      : shape_(shape), memory_(std::move(memory)) {}

  StepShape shape_;
  std::unique_ptr<Buffer> memory_;
};

}  // namespace sluice
