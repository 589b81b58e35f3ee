#include "orchestrator/tracing/request_tracer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "orchestrator/tracing/request_spans.h"

namespace sluice {

CallTrace RequestTracer::Begin(const std::optional<TraceContext>& caller, std::string method,
                               std::string operation) const {
  CallTrace trace;
  if (caller.has_value()) trace.trace_id = caller->trace_id;
  if (tracer_ == nullptr) return trace;
  Span span = tracer_->Begin(caller);
  if (!span.context.sampled()) return trace;
  span.kind = SpanKind::kServer;
  span.name = absl::StrCat(operation, " ", model_);
  span.Add("rpc.system", "grpc");
  span.Add("rpc.service", "sluice.v1.GenerationService");
  span.Add("rpc.method", std::move(method));
  span.Add("gen_ai.operation.name", std::move(operation));
  span.Add("gen_ai.provider.name", "sluice");
  span.Add("gen_ai.request.model", model_);
  trace.trace_id = span.context.trace_id;
  trace.span = std::make_shared<Span>(std::move(span));
  return trace;
}

void RequestTracer::End(const CallTrace& trace, const absl::Status& status) const {
  if (trace.span == nullptr) return;
  tracer_->End({EndedSpan(*trace.span, status, absl::Now())});
}

void RequestTracer::OnRequestEnded(const RequestLedger& ended) {
  if (ended.span == nullptr) return;
  tracer_->End(SpansOf(ended, {.steady = SteadyTime::Now(), .wall = absl::Now()}));
}

}  // namespace sluice
