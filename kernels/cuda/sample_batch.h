// What Ops::Sample is asked, as the device reads it, and what the device answers, as it is
// returned. Plain values.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "kernels/cuda/sample.h"
#include "kernels/sampling.h"

namespace sluice::cuda {

struct SampleBatch {
  std::vector<SampleRequest> requests;
  std::vector<uint32_t> allowed;
  std::vector<SampleEdit> edits;
  int64_t num_top = 0;  // of all rows
};

SampleBatch BatchOf(absl::Span<const SampleRow> rows, int64_t vocabulary);

// `top` as the device left it: by row, from request.top_begin on.
SampledRow RowOf(const SampleRequest& request, const SampleResult& result,
                 absl::Span<const SampleToken> top);

}  // namespace sluice::cuda
