#include "kernels/cpu/gather.h"

#include <algorithm>
#include <cstring>

#include "kernels/check.h"

namespace sluice {

// Bound by memory as it stands: the compiler's own vectors do.
void EmbeddingGather(CpuContext& context, MatrixView table, absl::Span<const int32_t> ids,
                     MatrixView out) {
  SLUICE_CHECK(out.rows == static_cast<int64_t>(ids.size()) && out.cols == table.cols);
  SLUICE_CHECK(table.dtype == DType::kF32 || table.dtype == DType::kBF16);
  for (const int32_t id : ids) SLUICE_CHECK(0 <= id && id < table.rows);
  ForRowRuns(context, out.rows, out.cols, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const void* row = table.Rows(ids[t], 1).data;
      if (table.dtype == DType::kF32) {
        std::memcpy(out.Row(t), row, out.cols * sizeof(float));
      } else {
        const auto* wide = static_cast<const uint16_t*>(row);
        std::transform(wide, wide + out.cols, out.Row(t), FloatFromBFloat16);
      }
    }
  });
}

}  // namespace sluice
