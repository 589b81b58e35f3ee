#include "services/telemetry/tracer.h"

#include <cmath>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/time/clock.h"

namespace sluice {
namespace {

constexpr uint8_t kSampledFlag = 1;
constexpr size_t kLowDigits = 16;

}  // namespace

Tracer::Tracer(std::shared_ptr<grpc::Channel> collector, double sample_ratio,
               SpanExporterOptions options)
    : sample_ratio_(sample_ratio), exporter_(std::move(collector), std::move(options)) {}

Span Tracer::Begin(const std::optional<TraceContext>& parent) const {
  Span span;
  span.start = absl::Now();
  if (parent.has_value()) {
    span.context = parent->Child();
    span.parent_span_id = parent->span_id;
  } else {
    span.context = TraceContext::NewTrace();
    if (IsSampled(span.context, sample_ratio_)) span.context.flags |= kSampledFlag;
  }
  return span;
}

bool IsSampled(const TraceContext& trace, double ratio) {
  if (ratio >= 1) return true;
  uint64_t low = 0;
  const std::string& id = trace.trace_id;
  if (id.size() < kLowDigits || !absl::SimpleHexAtoi(id.substr(id.size() - kLowDigits), &low)) {
    return false;
  }
  return std::ldexp(static_cast<double>(low >> 1), -63) < ratio;
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
