#include "kernels/cpu/packed_matrix.h"

#include <vector>

#include "kernels/check.h"

namespace sluice {
namespace {

// Writes `rows` ([outputs, num_inputs] row-major) into `panel`, whose padding is zero already.
template <class T>
void FillPanel(const T* rows, int64_t outputs, int64_t num_inputs, int64_t width, T* panel,
               ThreadPool& pool) {
  constexpr int64_t kRun = 512;  // of k; the part of the panel that one task writes stays in cache
  pool.ParallelFor((num_inputs + kRun - 1) / kRun, [&](int64_t run, int) {
    const int64_t end = std::min(num_inputs, (run + 1) * kRun);
    for (int64_t n = 0; n < outputs; ++n) {
      for (int64_t k = run * kRun; k < end; ++k) panel[k * width + n] = rows[n * num_inputs + k];
    }
  });
}

void CheckSpec(const PackSpec& spec) {
  SLUICE_CHECK(spec.num_outputs > 0 && spec.num_inputs > 0);
  SLUICE_CHECK(!IsQuantized(spec.format));
  SLUICE_CHECK(spec.num_slices > 0 && (spec.num_slices & (spec.num_slices - 1)) == 0);
  SLUICE_CHECK(spec.num_inputs % spec.num_slices == 0);
}

}  // namespace

absl::StatusOr<std::unique_ptr<PackedMatrix>> CpuPackedMatrix::Pack(const PackSpec& spec,
                                                                    const RowReader& read,
                                                                    ThreadPool& pool) {
  CheckSpec(spec);
  const int64_t padded_outputs = (spec.num_outputs + kWidthStep - 1) / kWidthStep * kWidthStep;
  absl::StatusOr<HostMemory> memory =
      HostMemory::Allocate(padded_outputs * RowBytes(spec.format, spec.num_inputs));
  if (!memory.ok()) return memory.status();
  auto matrix = std::unique_ptr<CpuPackedMatrix>(new CpuPackedMatrix(spec, *std::move(memory)));

  const int64_t row_bytes = static_cast<int64_t>(RowBytes(spec.format, spec.num_inputs));
  std::vector<std::byte> rows(std::min(kPanelWidth, spec.num_outputs) * row_bytes);
  for (int64_t panel = 0; panel < matrix->num_panels(); ++panel) {
    const int64_t outputs = matrix->PanelOutputs(panel);
    const int64_t first = panel * kPanelWidth;
    const absl::Status status =
        read(first, first + outputs, absl::MakeSpan(rows).first(outputs * row_bytes));
    if (!status.ok()) return status;
    const auto fill = [&]<class T>(T* to) {
      FillPanel(reinterpret_cast<const T*>(rows.data()), outputs, spec.num_inputs,
                matrix->PanelWidth(panel), to, pool);
    };
    if (spec.format == WeightFormat::kF32) {
      fill(const_cast<float*>(matrix->Panel<float>(panel)));
    } else {
      fill(const_cast<uint16_t*>(matrix->Panel<uint16_t>(panel)));
    }
  }
  return matrix;
}

}  // namespace sluice
