// Low-rank adapters on the CPU. A sum over the inputs of a slice runs in four interleaved chains,
// input k going to chain k % 4, that are joined in the end; the slices' sums are a binary tree of
// neighbours. Outputs add up ranks one after another. Neither depends on the width of vectors.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/adapter_ops.h"
#include "kernels/cpu/context.h"
#include "kernels/cpu/cpu_experts.h"

namespace sluice {

// Used by one thread at a time; borrows the context and what multiplies rows of experts.
class CpuAdapters final : public AdapterOps {
 public:
  CpuAdapters(CpuContext& context, CpuExperts& experts) : context_(context), experts_(experts) {}

  void SumAdapterInputs(MatrixView x, absl::Span<const int32_t> slots, FactorsBySlot factors,
                        MatrixView sums) override;
  void AddAdapterOutputs(MatrixView sums, absl::Span<const int32_t> slots, FactorsBySlot factors,
                         const float* scores, MatrixView out) override;
  void GemmWithAddends(MatrixView x, const PackedMatrix& weights, MatrixView out,
                       const GemmEpilogue& epilogue, const SumAddends& addends) override;
  void GroupedGemmWithAddends(MatrixView x, const ExpertMatrices& weights, const Routing& routing,
                              const GroupedOptions& options, const SumAddends& addends,
                              MatrixView out) override {
    experts_.GroupedGemm(x, weights, routing, options, addends, out);
  }
  void WriteAddends(MatrixView sums, absl::Span<const int32_t> slots, FactorsBySlot factors,
                    MatrixView values, uint8_t* rows) override;
  void SumExpertInputs(MatrixView x, const Routing& routing, absl::Span<const int32_t> slots,
                       FactorsBySlot factors, const ExpertInputOptions& options,
                       MatrixView sums) override;
  void WriteExpertAddends(MatrixView sums, const Routing& routing, absl::Span<const int32_t> slots,
                          FactorsBySlot factors, MatrixView values, uint8_t* rows) override;
  void AddExpertOutputs(MatrixView sums, const Routing& routing, absl::Span<const int32_t> slots,
                        FactorsBySlot factors, bool weighted, MatrixView out) override;

 private:
  // A row of the operation in progress that an adapter concerns.
  struct Row {
    int64_t in = 0;   // of what is read
    int64_t out = 0;  // of what is written
    const AdapterFactors* factors = nullptr;
    float weight = 1;  // of its sums
  };
  // Rows of one adapter that follow each other, [begin, end) of rows_.
  struct Run {
    int64_t begin = 0;
    int64_t end = 0;
  };

  void FindRows(absl::Span<const int32_t> slots, FactorsBySlot factors);
  void FindExpertRows(const Routing& routing, absl::Span<const int32_t> slots,
                      FactorsBySlot factors);
  // Cuts rows_ into runs of at most `most` rows.
  void FindRuns(int64_t most);
  void SumInputs(MatrixView x, MatrixView sums);
  void AddOutputs(MatrixView sums, MatrixView out);
  // Zeroes the rows of rows_ in `values` and marks them in `rows`, which has as many as `values`.
  void ClearAddends(MatrixView values, uint8_t* rows) const;

  CpuContext& context_;
  CpuExperts& experts_;
  std::vector<Row> rows_;
  std::vector<Run> runs_;
};

}  // namespace sluice
