// OpenTelemetry's environment variables, as its specification has them. What is wrong counts as not set,
// with a line in the log: variables are often meant for other programs, and one that says nothing to this
// one stops nothing. Pure functions of the lookup, but for that log.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "services/telemetry/otlp_text.h"
#include "services/telemetry/span_exporter.h"
#include "services/telemetry/trace_sampler.h"

namespace sluice {

// The value of an environment variable; empty: there is none.
using EnvironmentLookup = std::function<std::string(const char* name)>;

// Of this process.
EnvironmentLookup ProcessEnvironment();

// The collector's address that is there, usable or not; may be empty.
std::string CollectorIn(const EnvironmentLookup& environment);

// OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, else OTEL_EXPORTER_OTLP_ENDPOINT. Nothing where there is none, nor
// where OTEL_SDK_DISABLED, OTEL_TRACES_EXPORTER (otlp alone is known) or OTEL_EXPORTER_OTLP_PROTOCOL
// (grpc alone is spoken) says so.
std::optional<OtlpEndpoint> EndpointIn(const EnvironmentLookup& environment);

// Files and metadata for the collector: those of OTEL_EXPORTER_OTLP_TRACES_X, else of
// OTEL_EXPORTER_OTLP_X.
std::string CertificateIn(const EnvironmentLookup& environment);
std::vector<std::pair<std::string, std::string>> HeadersIn(const EnvironmentLookup& environment);

// OTEL_RESOURCE_ATTRIBUTES, and OTEL_SERVICE_NAME, which goes before them, as service.name.
std::vector<std::pair<std::string, std::string>> ResourceIn(const EnvironmentLookup& environment);

// OTEL_TRACES_SAMPLER with OTEL_TRACES_SAMPLER_ARG; else parentbased_always_on.
TraceSampler SamplerIn(const EnvironmentLookup& environment);

// Sets what OTEL_BSP_SCHEDULE_DELAY, OTEL_BSP_EXPORT_TIMEOUT, OTEL_BSP_MAX_QUEUE_SIZE,
// OTEL_BSP_MAX_EXPORT_BATCH_SIZE and OTEL_EXPORTER_OTLP_TIMEOUT (also with _TRACES_) say; milliseconds and
// numbers of spans. No batch is larger than the queue.
void SetBatchesFrom(const EnvironmentLookup& environment, SpanExporterOptions& options);

}  // namespace sluice
