// What a mixture of experts computes (Shazeer et al. 2017), one contract per operation. They are
// enqueued as those of kernels/ops.h are and keep the same promises: a row has the same bits
// whatever rows and experts are computed beside it, and on any number of ranks. No operation waits
// for the host, and the shapes of all matrices follow from the rows of a step, so that steps can be
// recorded. kernels/reference has each as plain loops.
//
// T rows of a step, E experts, k experts of a row, F columns of an expert on this rank.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/ops.h"
#include "kernels/routing.h"

namespace sluice {

// A matrix of each expert of a layer, all of one PackSpec. Immutable.
class ExpertMatrices {
 public:
  // REQUIRES: at least one.
  explicit ExpertMatrices(std::vector<std::unique_ptr<PackedMatrix>> matrices)
      : matrices_(std::move(matrices)) {}
  virtual ~ExpertMatrices() = default;

  int num_experts() const { return static_cast<int>(matrices_.size()); }
  const PackedMatrix& Of(int expert) const { return *matrices_[expert]; }

 private:
  const std::vector<std::unique_ptr<PackedMatrix>> matrices_;
};

// An expert that takes part in every row.
struct SharedExpert {
  MatrixView x;                        // [T, K] operand
  const PackedMatrix* down = nullptr;  // [H, K], cut into as many slices as the experts' matrices
  const float* scores = nullptr;       // [T] F32: a row's weight is sigmoid(score); null: 1
};

struct CombineOptions {
  bool weighted = true;         // whether an expert's result is multiplied with its weight
  const float* bias = nullptr;  // [E, H] F32: of each expert's result. Of the rank whose slices
                                // are the first; null on others
  std::optional<SharedExpert> shared;
  bool add_to_out = false;  // out += the result instead of out = the result
};

struct GroupedOptions {
  const float* bias = nullptr;  // [E, N] F32
  Activation activation = Activation::kSilu;
  GatedClamp clamp;
  bool weighs_inputs = false;  // x is multiplied with the weight of its row first
};

class ExpertOps {
 public:
  virtual ~ExpertOps() = default;

  // Chooses experts by `outputs` [T, E] F32 as RouteParams says; NaN counts as smallest. Writes
  // `routing`, which has memory for T rows at least.
  virtual void Route(MatrixView outputs, const RouteParams& params, const Routing& routing) = 0;

  // Row g of `out` is what Gemm makes of row routing.rows[g] of x and its expert's matrix, with its
  // bits. x [T, K], out [T * k, N] or, where the weights are gated, [T * k, N / 2], both operands.
  virtual void GroupedGemm(MatrixView x, const ExpertMatrices& weights, const Routing& routing,
                           const GroupedOptions& options, MatrixView out) = 0;

  // out[t] = the sum of what t's experts make of its rows of `x`: x [T * k, K] operand, out [T, H]
  // F32. The runs of K that PackSpec::num_slices cuts are summed each by itself, experts in
  // ascending order, then the shared one; the runs' sums are joined in the binary tree of Gemm. A
  // bias belongs to the first run.
  virtual void CombineExperts(MatrixView x, const ExpertMatrices& weights, const Routing& routing,
                              const CombineOptions& options, MatrixView out) = 0;

  // Sets aside what the two products take for up to `max_rows` rows of a step, so that nothing is
  // allocated while serving. `shared`: the shared expert's `down`, or null.
  virtual void ReserveForExperts(const ExpertMatrices& gate_up, const ExpertMatrices& down,
                                 const PackedMatrix* shared, int num_chosen, int64_t max_rows) = 0;
};

}  // namespace sluice
