// AdapterOps as plain loops.
#pragma once

#include "kernels/adapter_ops.h"

namespace sluice {

// All but products, which the backend has.
class ReferenceAdapters : public AdapterOps {
 public:
  void SumAdapterInputs(MatrixView x, absl::Span<const int32_t> slots, FactorsBySlot factors,
                        MatrixView sums) override;
  void AddAdapterOutputs(MatrixView sums, absl::Span<const int32_t> slots, FactorsBySlot factors,
                         const float* scores, MatrixView out) override;
  void WriteAddends(MatrixView sums, absl::Span<const int32_t> slots, FactorsBySlot factors,
                    MatrixView values, uint8_t* rows) override;
  void SumExpertInputs(MatrixView x, const Routing& routing, absl::Span<const int32_t> slots,
                       FactorsBySlot factors, const ExpertInputOptions& options,
                       MatrixView sums) override;
  void WriteExpertAddends(MatrixView sums, const Routing& routing, absl::Span<const int32_t> slots,
                          FactorsBySlot factors, MatrixView values, uint8_t* rows) override;
  void AddExpertOutputs(MatrixView sums, const Routing& routing, absl::Span<const int32_t> slots,
                        FactorsBySlot factors, bool weighted, MatrixView out) override;
};

}  // namespace sluice
