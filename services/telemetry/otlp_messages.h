// Spans in the messages of the OpenTelemetry protocol. Pure functions.
#pragma once

#include <vector>

#include "absl/types/span.h"
#include "opentelemetry/proto/collector/trace/v1/trace_service.pb.h"
#include "services/telemetry/span.h"

namespace sluice {

// One request that carries `spans`, said by who `resource` is. Texts are cut to 1,024 bytes, whole
// characters of UTF-8, and what is no UTF-8 in them becomes '?'.
opentelemetry::proto::collector::trace::v1::ExportTraceServiceRequest ExportRequest(
    const std::vector<SpanAttribute>& resource, absl::Span<const Span> spans);

}  // namespace sluice
