// States in place of keys and values of the reference backend: one position and one head at a time.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "kernels/recurrent_ops.h"

namespace sluice {

class ReferenceRecurrent final : public RecurrentOps {
 public:
  absl::StatusOr<std::unique_ptr<StatePool>> NewStatePool(const StatePoolSpec& spec) override;
  void CopyStates(absl::Span<const KvBlockCopy> copies, StatePool& pool) override;
  void BeginStates(absl::Span<const StateSegment> segments) override { states_.Assign(segments); }
  void Recur(const RecurrenceInputs& inputs, const RecurrenceParams& params, int layer,
             StatePool& pool, MatrixView out) override;
  void GateBySigmoid(MatrixView gate, MatrixView x) override;
  void Square(MatrixView x) override;
  void GroupRmsNorm(MatrixView x, const float* weight, float eps, int num_groups,
                    MatrixView out) override;

 private:
  OwnStateSegments states_;
};

}  // namespace sluice
