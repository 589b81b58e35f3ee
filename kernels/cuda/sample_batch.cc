#include "kernels/cuda/sample_batch.h"

#include <algorithm>

#include "kernels/check.h"

namespace sluice::cuda {
namespace {

SampleRequest RequestOf(const SampleRow& row) {
  const SamplingOptions& options = *row.options;
  return {.token_uniform = row.token_uniform,
          .xtc_uniform = row.xtc_uniform,
          .repetition_penalty = options.repetition_penalty,
          .temperature = options.temperature,
          .dynatemp_range = options.dynatemp_range,
          .dynatemp_exponent = options.dynatemp_exponent,
          .top_p = options.top_p,
          .min_p = options.min_p,
          .typical_p = options.typical_p,
          .top_n_sigma = options.top_n_sigma,
          .xtc_probability = options.xtc_probability,
          .xtc_threshold = options.xtc_threshold,
          .top_k = options.top_k,
          .wants_logprob = row.wants_logprob ? 1 : 0};
}

}  // namespace

SampleBatch BatchOf(absl::Span<const SampleRow> rows, int64_t vocabulary) {
  SampleBatch batch;
  for (const SampleRow& row : rows) {
    SampleRequest request = RequestOf(row);
    request.num_top = static_cast<int32_t>(std::min<int64_t>(row.num_top, vocabulary));
    request.top_begin = batch.num_top;
    batch.num_top += request.num_top;
    if (!row.allowed.empty()) {
      SLUICE_CHECK(static_cast<int64_t>(row.allowed.size()) * 32 >= vocabulary);
      request.allowed_begin = static_cast<int64_t>(batch.allowed.size());
      batch.allowed.insert(batch.allowed.end(), row.allowed.begin(), row.allowed.end());
    }
    request.edit_begin = static_cast<int64_t>(batch.edits.size());
    request.num_edits = static_cast<int32_t>(row.edits.size());
    for (const LogitEdit& edit : row.edits) {
      SLUICE_CHECK(edit.id >= 0 && edit.id < vocabulary);
      batch.edits.push_back({edit.id, edit.bias, edit.penalty, edit.repeated ? 1 : 0});
    }
    batch.requests.push_back(request);
  }
  return batch;
}

SampledRow RowOf(const SampleRequest& request, const SampleResult& result,
                 absl::Span<const SampleToken> top) {
  SampledRow row{.error = static_cast<SampleError>(result.error),
                 .token = {result.token.id, result.token.probability},
                 .top = {},
                 .logprob = result.logprob};
  std::vector<SampleToken> sorted(top.begin() + request.top_begin,
                                  top.begin() + request.top_begin + result.num_top);
  std::sort(sorted.begin(), sorted.end(), [](const SampleToken& a, const SampleToken& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
  });
  for (const SampleToken& token : sorted) row.top.push_back({token.id, token.probability});
  return row;
}

}  // namespace sluice::cuda
