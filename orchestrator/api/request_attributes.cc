#include "orchestrator/api/request_attributes.h"

#include "services/messages/num_returned.h"

namespace sluice {

std::string OperationOf(const v1::GenerateRequest& request) {
  return request.has_chat() ? "chat" : "text_completion";
}

void DescribeRequest(const v1::GenerateRequest& request, Span& span) {
  span.Add("gen_ai.response.id", request.request_id());
  if (request.has_max_tokens()) {
    span.Add("gen_ai.request.max_tokens", int64_t{request.max_tokens()});
  }
  if (const int32_t count = NumReturned(request); count != 1) {
    span.Add("gen_ai.request.choice.count", int64_t{count});
  }
  const v1::SamplingOptions& sampling = request.sampling();
  if (sampling.has_temperature()) {
    span.Add("gen_ai.request.temperature", double{sampling.temperature()});
  }
  if (sampling.has_top_k()) span.Add("gen_ai.request.top_k", static_cast<double>(sampling.top_k()));
  if (sampling.has_top_p()) span.Add("gen_ai.request.top_p", double{sampling.top_p()});
  if (sampling.has_seed()) {
    span.Add("gen_ai.request.seed", static_cast<int64_t>(sampling.seed()));
  }
}

}  // namespace sluice
