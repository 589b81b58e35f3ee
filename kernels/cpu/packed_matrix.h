// A weight matrix as the CPU multiplies it: panels of kPanelWidth outputs, in each of them the
// slices of K one after another, laid out by the kernel that will read them (gemm_kernel.h). One
// pass over K reads a panel from front to back. Where the matrix is gated, a panel holds 16 gates
// and then their 16 ups, both padded with zeroes.
//
// On machines with several NUMA nodes the panels lie in several pieces of memory, one for each share
// of a NumaLayout. Immutable after Pack(); may be read by many threads.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/backend.h"
#include "kernels/cpu/gemm_kernel.h"
#include "kernels/cpu/instruction_set.h"
#include "kernels/cpu/memory.h"
#include "kernels/cpu/numa.h"
#include "kernels/cpu/thread_pool.h"

namespace sluice {

class CpuPackedMatrix final : public PackedMatrix {
 public:
  // Device::Pack into memory of `arenas`, one for each share of `layout`, on the threads of `pool`;
  // each holds one panel's rows besides the matrix itself.
  static absl::StatusOr<std::unique_ptr<PackedMatrix>> Pack(
      const PackSpec& spec, InstructionSet instructions, const RowReader& read,
      const NumaLayout& layout, absl::Span<HostArena> arenas, ThreadPool& pool);

  int64_t num_outputs() const override { return spec_.num_outputs; }
  int64_t num_inputs() const override { return spec_.num_inputs; }
  size_t size_bytes() const override;
  const GemmKernel& kernel() const { return kernel_; }

  ActivationFormat activations() const { return spec_.format.activations; }
  int num_slices() const { return spec_.num_slices; }
  int64_t slice_depth() const { return spec_.num_inputs / spec_.num_slices; }
  // The same as the kernel has it.
  int64_t padded_slice_depth() const {
    return (slice_depth() + kernel_.depth_step - 1) / kernel_.depth_step * kernel_.depth_step;
  }

  bool gated() const { return spec_.gated; }
  // Columns of a product: N or, where gated, N / 2. A panel computes panel_columns() of them, the
  // last one what is left.
  int64_t num_columns() const { return spec_.num_outputs / (spec_.gated ? 2 : 1); }
  int64_t panel_columns() const { return kPanelWidth / (spec_.gated ? 2 : 1); }
  int64_t num_panels() const { return (num_columns() + panel_columns() - 1) / panel_columns(); }
  int64_t PanelColumns(int64_t panel) const {
    return std::min(panel_columns(), num_columns() - panel * panel_columns());
  }
  // Outputs of a panel with its padding.
  int64_t PanelOutputs(int64_t panel) const {
    return spec_.gated ? kPanelWidth
                       : (PanelColumns(panel) + kWidthStep - 1) / kWidthStep * kWidthStep;
  }
  // By which worker each panel is best multiplied.
  const NumaLayout& layout() const { return layout_; }
  const std::byte* Slice(int64_t panel, int64_t slice) const {
    const Piece* piece = &pieces_.front();
    while (panel >= piece->end_panel) ++piece;
    const std::byte* const begin =
        piece->memory.data + (panel - piece->first_panel) * spec_.num_slices * slice_bytes_;
    return begin + slice * (panel + 1 == num_panels() ? last_slice_bytes_ : slice_bytes_);
  }

 private:
  CpuPackedMatrix(const PackSpec& spec, const GemmKernel& kernel, const NumaLayout& layout)
      : spec_(spec),
        kernel_(kernel),
        layout_(layout),
        slice_bytes_(SliceBytes(kPanelWidth)),
        last_slice_bytes_(SliceBytes(PanelOutputs(num_panels() - 1))) {}

  // Panels [first_panel, end_panel), one after another.
  struct Piece {
    int64_t first_panel;
    int64_t end_panel;
    HostPart memory;
  };

  int64_t RowBytesOf(int64_t num_inputs) const {
    return static_cast<int64_t>(RowBytes(spec_.format.weights, num_inputs));
  }
  int64_t SliceBytes(int64_t width) const {
    return kernel_.slice_bytes != nullptr ? kernel_.slice_bytes(width, padded_slice_depth())
                                          : width * RowBytesOf(padded_slice_depth());
  }
  absl::Status TakePieces(absl::Span<HostArena> arenas);
  absl::Status PackPanel(int64_t panel, const RowReader& read, absl::Span<std::byte> rows);

  const PackSpec spec_;  // in a format that the kernel has
  const GemmKernel& kernel_;
  const NumaLayout layout_;
  const int64_t slice_bytes_;       // of a whole panel
  const int64_t last_slice_bytes_;  // of the last one
  std::vector<Piece> pieces_;       // in order; none is empty
};

}  // namespace sluice
