#include "kernels/cpu/gather.h"

#include <algorithm>
#include <cstring>

#include "kernels/check.h"

namespace sluice {

// Bound by memory as it stands: the compiler's own vectors do.
void GatherRows(CpuContext& context, MatrixView table, absl::Span<const int32_t> rows,
                MatrixView out) {
  SLUICE_CHECK(out.rows == static_cast<int64_t>(rows.size()) && out.cols == table.cols);
  SLUICE_CHECK(table.dtype == DType::kF32 || table.dtype == DType::kBF16);
  for (const int32_t row : rows) SLUICE_CHECK(0 <= row && row < table.rows);
  ForRowRuns(context, out.rows, out.cols, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const void* row = table.Rows(rows[t], 1).data;
      if (table.dtype == DType::kF32) {
        std::memcpy(out.Row(t), row, out.cols * sizeof(float));
      } else {
        const auto* wide = static_cast<const uint16_t*>(row);
        std::transform(wide, wide + out.cols, out.Row(t), FloatFromBFloat16);
      }
    }
  });
}

void GatherElements(MatrixView x, absl::Span<const MatrixElement> elements,
                    absl::Span<float> values) {
  SLUICE_CHECK(x.dtype == DType::kF32 && elements.size() == values.size());
  for (size_t i = 0; i < elements.size(); ++i) {
    const auto& [row, col] = elements[i];
    SLUICE_CHECK(0 <= row && row < x.rows && 0 <= col && col < x.cols);
    values[i] = x.Row(row)[col];
  }
}

}  // namespace sluice
