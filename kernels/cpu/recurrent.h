// States in place of keys and values, on the CPU. Every sum of a kind is one loop: an output is the
// sum of rows times coefficients, rows in ascending order, each output element by itself, so that its
// bits depend on neither the width of vectors nor what is computed beside it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/check.h"
#include "kernels/cpu/context.h"
#include "kernels/cpu/memory.h"
#include "kernels/cpu/numa.h"
#include "kernels/recurrent_ops.h"

namespace sluice {

class CpuStatePool final : public StatePool {
 public:
  static absl::StatusOr<std::unique_ptr<StatePool>> Create(const StatePoolSpec& spec);

  size_t size_bytes() const override { return memory_.size_bytes(); }
  const StatePoolSpec& spec() const { return spec_; }
  float* Slot(int layer, int32_t slot) const {
    SLUICE_CHECK(0 <= layer && layer < spec_.num_layers && 0 <= slot && slot < spec_.num_slots);
    return reinterpret_cast<float*>(memory_.data()) +
           (int64_t{1} * layer * spec_.num_slots + slot) * spec_.floats_per_slot();
  }

 private:
  CpuStatePool(const StatePoolSpec& spec, HostMemory memory)
      : spec_(spec), memory_(std::move(memory)) {}

  const StatePoolSpec spec_;
  HostMemory memory_;
};

// Used by one thread at a time; borrows the context and the layout.
class CpuRecurrence final : public RecurrentOps {
 public:
  CpuRecurrence(CpuContext& context, const NumaLayout& layout)
      : context_(context), layout_(layout) {}

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
  CpuContext& context_;
  const NumaLayout& layout_;
  OwnStateSegments states_;  // of the step
};

}  // namespace sluice
