#include "kernels/cpu/sample.h"

#include "kernels/check.h"
#include "kernels/cpu/softmax.h"

namespace sluice {

void Sample(CpuContext& context, MatrixView logits, absl::Span<const SampleRow> rows,
            absl::Span<SampledRow> results) {
  SLUICE_CHECK(logits.dtype == DType::kF32);
  SLUICE_CHECK(logits.rows == static_cast<int64_t>(rows.size()) && rows.size() == results.size());
  context.pool.ParallelFor(logits.rows, [&](int64_t row, int worker) {
    const absl::Span<const float> of_row(logits.Row(row), logits.cols);
    SampledRow& result = results[row];
    result = context.samplers[worker].Sample(of_row, rows[row]);
    if (rows[row].wants_logprob && result.error == SampleError::kNone) {
      result.logprob = LogProbability(of_row, result.token.id);
    }
  });
}

}  // namespace sluice
