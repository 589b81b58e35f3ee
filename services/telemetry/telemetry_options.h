// Where a program's spans go and how, from its flags and OpenTelemetry's environment variables. A
// pure function of both.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "services/security/credentials.h"
#include "services/telemetry/span_exporter.h"
#include "services/telemetry/tracer.h"

namespace sluice {

// As they were given; empty: not.
struct TelemetryFlags {
  std::string endpoint;
  std::string authority;   // PEM file
  std::string token_file;  // of a bearer token
  double sample_ratio = 1;
};

struct TelemetryOptions {
  std::string address;
  ClientSecurity security;
  double sample_ratio = 1;
  SpanExporterOptions exporter;
};

// The value of an environment variable; empty: there is none.
using EnvironmentLookup = std::function<std::string(const char* name)>;

// Nothing where no collector is named. Flags go before these variables, which count as
// OpenTelemetry's specification says, those that are wrong not at all, with a line in the log:
// OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_PROTOCOL (grpc
// alone is spoken), OTEL_EXPORTER_OTLP_CERTIFICATE, OTEL_EXPORTER_OTLP_HEADERS, OTEL_SERVICE_NAME
// (else `program`), OTEL_RESOURCE_ATTRIBUTES, OTEL_SDK_DISABLED. INVALID_ARGUMENT for a wrong flag, and
// for a token that would go to another host in plaintext.
absl::StatusOr<std::optional<TelemetryOptions>> MakeTelemetryOptions(
    absl::string_view program, const TelemetryFlags& flags, const EnvironmentLookup& environment);

// Errors of DialPublic.
absl::StatusOr<std::unique_ptr<Tracer>> StartTracer(const TelemetryOptions& options);

}  // namespace sluice
