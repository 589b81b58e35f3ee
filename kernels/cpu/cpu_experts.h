// Mixtures of experts on the CPU. Routing is arithmetic on a few numbers a row; the products are
// those of gemm.h, an expert's rows together, with its weights read once.
//
// The order of every sum is fixed by the matrices, the row and the instruction set: an output's
// runs of K each add up the row's experts in ascending order, and are joined as gemm.h's are.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/adapter_ops.h"
#include "kernels/cpu/context.h"
#include "kernels/cpu/gemm_activations.h"
#include "kernels/cpu/route.h"
#include "kernels/expert_ops.h"

namespace sluice {

// Used by one thread at a time; borrows the context.
class CpuExperts final : public ExpertOps {
 public:
  explicit CpuExperts(CpuContext& context) : context_(context) {}

  void Route(MatrixView outputs, const RouteParams& params, const Routing& routing) override {
    sluice::Route(context_, outputs, params, routing);
  }
  void GroupedGemm(MatrixView x, const ExpertMatrices& weights, const Routing& routing,
                   const GroupedOptions& options, MatrixView out) override {
    GroupedGemm(x, weights, routing, options, SumAddends(), out);
  }
  void GroupedGemm(MatrixView x, const ExpertMatrices& weights, const Routing& routing,
                   const GroupedOptions& options, const SumAddends& addends, MatrixView out);
  void CombineExperts(MatrixView x, const ExpertMatrices& weights, const Routing& routing,
                      const CombineOptions& options, MatrixView out) override;
  void ReserveForExperts(const ExpertMatrices& gate_up, const ExpertMatrices& down,
                         const PackedMatrix* shared, int num_chosen, int64_t max_rows) override;

 private:
  // An expert that has rows in the step, or the shared one.
  struct Active {
    int expert;  // the number of experts for the shared one
    RowGroup group;
  };

  // Experts with rows, whose rows are those of `x`: grouped already, or to be gathered.
  void FindActive(MatrixView x, const ExpertMatrices& weights, const Routing& routing,
                  bool is_grouped);
  void Prepare();
  MatrixView WeightedInputs(MatrixView x, const Routing& routing);

  CpuContext& context_;
  // Of the product in progress.
  std::vector<Active> active_;
  std::vector<RowGroup> groups_;
  std::vector<GemmActivations> activations_;
  Scratch inputs_{1};          // rows times their weights: area 0
  Scratch shared_weights_{1};  // of the step's rows: area 0
};

}  // namespace sluice
