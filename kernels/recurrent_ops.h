// What layers with a state of fixed size in place of keys and values compute between their products
// (Yang, Kautz, Hatamizadeh 2024, "Gated Delta Networks"; Dao, Gu 2024, "Mamba-2"), and the gate of
// the attention beside them, one contract per operation. A part of a backend: kernels/backend.h says
// what all operations have in common.
//
// The recurrence is cut at multiples of StatePoolSpec::kRun positions, counted from the first of a
// sequence. What a position computes is a function of the memory at the boundary before it and of
// what the positions since have left, added in ascending order, so that a decode step, any chunk of
// a prompt and a replay compute the same numbers in the same order. A memory is computed once, by
// the first position after its boundary.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/matrix_view.h"
#include "kernels/ops.h"
#include "kernels/state_format.h"

namespace sluice {

// The states of some layers, by slot.
class StatePool {
 public:
  virtual ~StatePool() = default;
  virtual size_t size_bytes() const = 0;
};

// The rows of one sequence in a step, as AttentionSegment has them, and their slots.
struct StateSegment {
  int64_t first_row = 0;
  int64_t num_rows = 0;  // >= 1
  int64_t first_position = 0;
  // Of each run of positions from the one that holds first_position - 1 on, or from the first run
  // where first_position is 0.
  absl::Span<const int32_t> slots;
};

// Inputs are rows of the step, [T, .] F32.
struct RecurrenceInputs {
  MatrixView mixed;  // [T, channels]: queries, keys, values before the convolution; undefined after
  MatrixView gate;   // [T, values_width]
  MatrixView beta;   // [T, heads], before the sigmoid; with the correction of the delta rule alone
  MatrixView decay;  // [T, heads], before the bias
};

struct RecurrenceParams {
  // The rule, position by position, of a head with memory S [key_dim, value_dim]:
  //   S = exp(g) S;  S = S + k w^T;  out = S^T q
  // With the correction q and k are divided by sqrt(|x|^2 + 1e-6), q by sqrt(key_dim) besides,
  // g = -exp(log_rate) softplus(decay + bias) and w = sigmoid(beta) (v - S^T k) with the faded S; and
  // out becomes out / sqrt(mean(out^2) + eps) * norm * silu(gate).
  // Without it the time step is s = clamp(softplus(decay + bias)), g = -exp(log_rate) s, w = s v; and
  // out becomes (out + skip v) * silu(gate), whose norm is others' business.
  bool has_correction = true;
  const float* conv = nullptr;       // [conv_width, channels], the last row for the position itself
  const float* conv_bias = nullptr;  // [channels]; null: none
  const float* decay_bias = nullptr;  // [heads]
  const float* log_rate = nullptr;    // [heads]
  const float* norm = nullptr;        // [value_dim], with the correction
  float norm_eps = 0;
  const float* skip = nullptr;  // [heads], without it
  float least_step = 0;
  float most_step = 0;
};

// Segments that outlive the call they came with, kept by backends on the host.
class OwnStateSegments {
 public:
  OwnStateSegments() = default;
  explicit OwnStateSegments(absl::Span<const StateSegment> segments) { Assign(segments); }
  OwnStateSegments(const OwnStateSegments&) = delete;
  OwnStateSegments& operator=(const OwnStateSegments&) = delete;

  void Assign(absl::Span<const StateSegment> segments) {
    segments_.assign(segments.begin(), segments.end());
    slots_.clear();
    for (const StateSegment& segment : segments) {
      slots_.insert(slots_.end(), segment.slots.begin(), segment.slots.end());
    }
    size_t first = 0;  // once they lie where they stay
    for (StateSegment& segment : segments_) {
      segment.slots = absl::MakeConstSpan(slots_).subspan(first, segment.slots.size());
      first += segment.slots.size();
    }
  }
  absl::Span<const StateSegment> all() const { return segments_; }

 private:
  std::vector<StateSegment> segments_;
  std::vector<int32_t> slots_;
};

class RecurrentOps {
 public:
  virtual ~RecurrentOps() = default;

  // Memory is reserved, not touched. RESOURCE_EXHAUSTED.
  virtual absl::StatusOr<std::unique_ptr<StatePool>> NewStatePool(const StatePoolSpec& spec) = 0;

  // As Ops::CopyBlocks.
  virtual void CopyStates(absl::Span<const KvBlockCopy> copies, StatePool& pool) = 0;

  // Says which rows of a step belong to which positions, for Recur until the next call. To be called
  // after Device::BeginStep. Segments do not overlap.
  virtual void BeginStates(absl::Span<const StateSegment> segments) = 0;

  // silu(causal convolution) of `mixed`, and the rule over the positions of every segment of the
  // step, each after those before it. Reads what the position before the segment has left in its slot, writes the slots of the segment's own
  // positions. Runs that follow each other may have one slot, where the earlier ones end within the
  // segment and no other step needs what they leave. out [T, values_width] operand; rows of no
  // segment are left as they are.
  virtual void Recur(const RecurrenceInputs& inputs, const RecurrenceParams& params, int layer,
                     StatePool& pool, MatrixView out) = 0;

  // x = x * sigmoid(gate). x [T, N] operand, gate [T, N] F32.
  virtual void GateBySigmoid(MatrixView gate, MatrixView x) = 0;

  // x = x^2, element by element. x [rows, N] operand.
  virtual void Square(MatrixView x) = 0;

  // out = x / sqrt(mean(x^2) + eps) * weight for each of `num_groups` equal runs of a row's columns,
  // whose sums of squares are whole: x [T, N] F32, weight [N], out [T, N] operand, may be x.
  virtual void GroupRmsNorm(MatrixView x, const float* weight, float eps, int num_groups,
                            MatrixView out) = 0;
};

}  // namespace sluice
