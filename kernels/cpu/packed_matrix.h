// A weight matrix as the CPU multiplies it.
//
// The N outputs are cut into panels of 64 (the last one holds what is left, padded with zeroes to a
// multiple of 16). A panel stores, for k = 0, 1, ..., the weights of its outputs side by side:
// element (n, k) lies at panel[k * width + n % 64]. So a vector of weights belongs to neighbouring
// outputs, whatever the width of a vector, and one pass over K reads a panel from front to back.
//
// Immutable after Pack(); may be read by many threads.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/cpu/memory.h"
#include "kernels/cpu/thread_pool.h"

namespace sluice {

class CpuPackedMatrix final : public PackedMatrix {
 public:
  static constexpr int64_t kPanelWidth = 64;
  static constexpr int64_t kWidthStep = 16;

  // Backend::Pack; `pool` helps to rearrange. Holds one panel's rows besides the matrix itself.
  static absl::StatusOr<std::unique_ptr<PackedMatrix>> Pack(const PackSpec& spec,
                                                            const RowReader& read,
                                                            ThreadPool& pool);

  int64_t num_outputs() const override { return spec_.num_outputs; }
  int64_t num_inputs() const override { return spec_.num_inputs; }
  size_t size_bytes() const override { return memory_.size_bytes(); }
  WeightFormat format() const { return spec_.format; }
  int num_slices() const { return spec_.num_slices; }

  int64_t num_panels() const { return (spec_.num_outputs + kPanelWidth - 1) / kPanelWidth; }
  // Outputs of panel `panel`, and the same with its padding.
  int64_t PanelOutputs(int64_t panel) const {
    return std::min(kPanelWidth, spec_.num_outputs - panel * kPanelWidth);
  }
  int64_t PanelWidth(int64_t panel) const {
    return (PanelOutputs(panel) + kWidthStep - 1) / kWidthStep * kWidthStep;
  }
  // Element (first output, k = 0) of a panel. T is float or, for BF16, uint16_t.
  template <class T>
  const T* Panel(int64_t panel) const {
    return reinterpret_cast<const T*>(memory_.data()) + panel * kPanelWidth * spec_.num_inputs;
  }

 private:
  CpuPackedMatrix(const PackSpec& spec, HostMemory memory)
      : spec_(spec), memory_(std::move(memory)) {}

  const PackSpec spec_;
  const HostMemory memory_;
};

}  // namespace sluice
