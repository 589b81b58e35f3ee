// Options of the span exporter, from flags and OpenTelemetry's environment variables. A pure
// function of both.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "services/security/credentials.h"
#include "services/telemetry/span_exporter.h"
#include "services/telemetry/telemetry_environment.h"
#include "services/telemetry/trace_sampler.h"
#include "services/telemetry/tracer.h"

namespace sluice {

// As they were given; empty: not.
struct TelemetryFlags {
  std::string endpoint;
  std::string authority;               // PEM file
  std::string token_file;              // of a bearer token
  std::optional<double> sample_ratio;  // of requests whose callers have not decided
};

struct TelemetryOptions {
  std::string address;
  ClientSecurity security;
  TraceSampler sampler;
  SpanExporterOptions exporter;
};

// Nothing where no collector is named. Flags go before the variables of telemetry_environment.h.
// service.name is `program` where they do not say. INVALID_ARGUMENT for a wrong flag, and for a
// token that would go to another host in plaintext.
absl::StatusOr<std::optional<TelemetryOptions>> MakeTelemetryOptions(
    absl::string_view program, const TelemetryFlags& flags, const EnvironmentLookup& environment);

// Errors of DialPublic.
absl::StatusOr<std::unique_ptr<Tracer>> StartTracer(const TelemetryOptions& options);

}  // namespace sluice
