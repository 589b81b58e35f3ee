// Mixtures of experts of the reference backend: one row and one expert at a time.
#pragma once

#include "kernels/expert_ops.h"

namespace sluice {

// Multiplies with `ops`, which must outlive it.
class ReferenceExperts final : public ExpertOps {
 public:
  explicit ReferenceExperts(Ops& ops) : ops_(ops) {}

  void Route(MatrixView outputs, const RouteParams& params, const Routing& routing) override;
  void GroupedGemm(MatrixView x, const ExpertMatrices& weights, const Routing& routing,
                   const GroupedOptions& options, MatrixView out) override;
  void CombineExperts(MatrixView x, const ExpertMatrices& weights, const Routing& routing,
                      const CombineOptions& options, MatrixView out) override;
  void ReserveForExperts(const ExpertMatrices&, const ExpertMatrices&, const PackedMatrix*, int,
                         int64_t) override {}

 private:
  Ops& ops_;
};

}  // namespace sluice
