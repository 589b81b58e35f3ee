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

namespace sluice {

class Tracer {
 public:
  // `sample_ratio`, 0 to 1: of traces that begin here, the part that is recorded.
  Tracer(std::shared_ptr<grpc::Channel> collector, double sample_ratio,
         SpanExporterOptions options);

  // A span that begins now on behalf of `parent`, which decides whether it is recorded; without one
  // it is the first of a new trace. What is not recorded is passed on, as not recorded, all the same.
  Span Begin(const std::optional<TraceContext>& parent) const;

  // Tells the collector of spans that have ended; of those that are recorded.
  void End(std::vector<Span> spans) { exporter_.Export(std::move(spans)); }

  bool Flush(absl::Duration timeout) { return exporter_.Flush(timeout); }
  SpanCounts counts() const { return exporter_.counts(); }

 private:
  const double sample_ratio_;
  SpanExporter exporter_;
};

// Whether so large a part of all traces, chosen by their ids, has this one: the same answer in every
// program with the same ratio, and with any larger one.
bool IsSampled(const TraceContext& trace, double ratio);

// A part of `whole`.
Span ChildOf(const Span& whole, std::string name, absl::Time start, absl::Time end);

}  // namespace sluice
