// Begins and ends the spans of a program. Thread-safe.
#pragma once

#include <grpcpp/channel.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "services/common/trace_context.h"
#include "services/telemetry/span.h"
#include "services/telemetry/span_exporter.h"
#include "services/telemetry/trace_sampler.h"

namespace sluice {

class Tracer {
 public:
  Tracer(std::shared_ptr<grpc::Channel> collector, TraceSampler sampler,
         SpanExporterOptions options);

  // A span that begins now on behalf of `parent`; without one it is the first of a new trace. The
  // sampler decides whether it is recorded. What is not is passed on, as not recorded, all the same.
  Span Begin(const std::optional<TraceContext>& parent) const;

  // Tells the collector of spans that have ended; of those that are recorded.
  void End(std::vector<Span> spans) { exporter_.Export(std::move(spans)); }

  bool Flush(absl::Duration timeout) { return exporter_.Flush(timeout); }
  SpanCounts counts() const { return exporter_.counts(); }

 private:
  const TraceSampler sampler_;
  SpanExporter exporter_;
};

// A part of `whole`.
Span ChildOf(const Span& whole, std::string name, absl::Time start, absl::Time end);

}  // namespace sluice
