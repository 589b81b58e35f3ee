// Products with low-rank adapters (Hu et al. 2021, "LoRA"): y += B (A x), where rows of one step may
// have different adapters or none. They are enqueued as the operations of kernels/ops.h are and keep
// the same promises: a row has the same bits whatever rows and adapters are computed beside it,
// whichever slots they have, and on any number of ranks. kernels/reference has each as plain loops.
// A part of a backend: Device::adapters().
//
// A product is two operations, so that ranks that share the inputs of a matrix join A x, which is
// narrow, in the tree of RankGroup::SumToResidual before B multiplies it.
//
// T rows of a step, K and N inputs and outputs of the adapted matrix, E experts, k experts of a row.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "kernels/expert_ops.h"
#include "kernels/matrix_view.h"
#include "kernels/ops.h"
#include "kernels/routing.h"

namespace sluice {

// Ranks are padded to a multiple of this with rows of zeros.
inline constexpr int64_t kAdapterRankStep = 16;

constexpr int64_t PaddedRank(int64_t rank) {
  return (rank + kAdapterRankStep - 1) / kAdapterRankStep * kAdapterRankStep;
}

// What an adapter adds to a run of a matrix's outputs: B, with the adapter's scale in it.
struct AdapterOutputs {
  int64_t first_output = 0;
  int64_t num_outputs = 0;
  int64_t first_rank = 0;    // of the sums A x that these outputs read
  int64_t rank = 0;          // >= 1; not padded
  const float* b = nullptr;  // [rank, num_outputs] F32 of the backend's memory: B transposed
};

// An adapter of one matrix, which may be several fused ones: each run of outputs reads its own part
// of A x, or shares one. Borrows its memory.
struct AdapterFactors {
  // [rank / 16, K, 16] F32 of the backend's memory: A transposed, in blocks of kAdapterRankStep ranks.
  const float* a = nullptr;
  int64_t num_inputs = 0;  // K
  int64_t rank = 0;        // of all parts together, a multiple of kAdapterRankStep
  // Equal runs of K that are each summed by itself and joined in a binary tree, as PackSpec has it.
  int num_slices = 1;
  std::vector<AdapterOutputs> outputs;  // do not overlap
};

// The adapters of one matrix by slot, null where an adapter leaves the matrix as it is. Those of the
// matrices of E experts: the adapter in slot s has that of expert e at s * E + e.
using FactorsBySlot = absl::Span<const AdapterFactors* const>;

// What is added to rows of a product before its bias and activation.
struct SumAddends {
  MatrixView values;              // [T, N] F32; no memory: nothing is added
  const uint8_t* rows = nullptr;  // [T]: 0 where a row has no addend, and its values mean nothing

  bool empty() const { return values.data == nullptr; }
};

struct ExpertInputOptions {
  bool is_grouped = false;  // row g of x is grouped row g; otherwise x has the step's rows
  bool weighted = false;    // sums are multiplied with the weight of their grouped row
};

class AdapterOps {
 public:
  virtual ~AdapterOps() = default;

  // sums[t] = A x[t] of the adapter in slots[t], followed by zeros; all zeros where slots[t] is
  // negative or the slot has no factors. x [T, K] operand, `slots` [T] host memory, sums [T, R] F32,
  // R at least the rank of all factors.
  virtual void SumAdapterInputs(MatrixView x, absl::Span<const int32_t> slots,
                                FactorsBySlot factors, MatrixView sums) = 0;

  // out[t] += B sums[t], in ascending order of ranks, for the rows that have factors; others stay as
  // they are. With `scores` [T] F32 of the backend's memory, sums are multiplied by their row's
  // sigmoid first. sums [T, R], out [T, N] F32.
  virtual void AddAdapterOutputs(MatrixView sums, absl::Span<const int32_t> slots,
                                 FactorsBySlot factors, const float* scores, MatrixView out) = 0;

  // Ops::Gemm and ExpertOps::GroupedGemm with `addends`, [T, N] and [T * k, N], added to the sums.
  virtual void GemmWithAddends(MatrixView x, const PackedMatrix& weights, MatrixView out,
                               const GemmEpilogue& epilogue, const SumAddends& addends) = 0;
  virtual void GroupedGemmWithAddends(MatrixView x, const ExpertMatrices& weights,
                                      const Routing& routing, const GroupedOptions& options,
                                      const SumAddends& addends, MatrixView out) = 0;

  // Of every row that has factors: addends.values[t] = B sums[t], zero where no part has the output,
  // and addends.rows[t] = 1; of others addends.rows[t] = 0. `values` and `rows` are those of addends.
  virtual void WriteAddends(MatrixView sums, absl::Span<const int32_t> slots, FactorsBySlot factors,
                            MatrixView values, uint8_t* rows) = 0;

  // The same for the rows of experts that `routing` has grouped: sums [T * k, R], values [T * k, N],
  // rows [T * k].
  virtual void SumExpertInputs(MatrixView x, const Routing& routing,
                               absl::Span<const int32_t> slots, FactorsBySlot factors,
                               const ExpertInputOptions& options, MatrixView sums) = 0;
  virtual void WriteExpertAddends(MatrixView sums, const Routing& routing,
                                  absl::Span<const int32_t> slots, FactorsBySlot factors,
                                  MatrixView values, uint8_t* rows) = 0;
  // out[t] += the sum of B sums[g] over t's grouped rows, experts in ascending order; `weighted`: of B
  // times sums[g] times g's weight. out [T, N] F32. What `sums` hold afterwards is unspecified.
  virtual void AddExpertOutputs(MatrixView sums, const Routing& routing,
                                absl::Span<const int32_t> slots, FactorsBySlot factors,
                                bool weighted, MatrixView out) = 0;
};

}  // namespace sluice
