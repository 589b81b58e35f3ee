#include "services/telemetry/tracer.h"

#include <utility>

#include "absl/time/clock.h"

namespace sluice {
namespace {

constexpr uint8_t kSampledFlag = 1;

}  // namespace

Tracer::Tracer(std::shared_ptr<grpc::Channel> collector, TraceSampler sampler,
               SpanExporterOptions options)
    : sampler_(sampler), exporter_(std::move(collector), std::move(options)) {}

Span Tracer::Begin(const std::optional<TraceContext>& parent) const {
  Span span;
  span.start = absl::Now();
  span.context = parent.has_value() ? parent->Child() : TraceContext::NewTrace();
  if (parent.has_value()) span.parent_span_id = parent->span_id;
  if (sampler_.Samples(parent, span.context)) {
    span.context.flags |= kSampledFlag;
  } else {
    span.context.flags &= ~kSampledFlag;
  }
  return span;
}

Span ChildOf(const Span& whole, std::string name, absl::Time start, absl::Time end) {
  Span child;
  child.context = whole.context.Child();
  child.parent_span_id = whole.context.span_id;
  child.name = std::move(name);
  child.start = start;
  child.end = end;
  return child;
}

}  // namespace sluice
