#include "services/telemetry/telemetry_flags.h"

#include <optional>
#include <string>

#include "absl/flags/flag.h"
#include "services/telemetry/telemetry_options.h"

ABSL_FLAG(
    std::string, otlp_endpoint, "",
    "HOST:PORT of an OpenTelemetry collector that is told a span for every request, by OTLP over "
    "gRPC; in plaintext on this host and after http://, else over TLS; default: what "
    "OTEL_EXPORTER_OTLP_ENDPOINT says");
ABSL_FLAG(
    std::string, otlp_tls_ca, "",
    "PEM file of the authority that the collector's certificate comes from; default: those that "
    "this system trusts");
ABSL_FLAG(std::string, otlp_token_file, "",
          "file of a bearer token for the collector, read again for every call");
ABSL_FLAG(std::optional<double>, otlp_sample_ratio, std::nullopt,
          "part of the requests that are told of, 0 to 1, where their caller has not decided so: "
          "traceparent's flag does; default: what OTEL_TRACES_SAMPLER says, else 1");

namespace sluice {

absl::StatusOr<std::unique_ptr<Tracer>> TracerFromFlags(absl::string_view program) {
  const TelemetryFlags flags = {.endpoint = absl::GetFlag(FLAGS_otlp_endpoint),
                                .authority = absl::GetFlag(FLAGS_otlp_tls_ca),
                                .token_file = absl::GetFlag(FLAGS_otlp_token_file),
                                .sample_ratio = absl::GetFlag(FLAGS_otlp_sample_ratio)};
  const absl::StatusOr<std::optional<TelemetryOptions>> options =
      MakeTelemetryOptions(program, flags, ProcessEnvironment());
  if (!options.ok()) return options.status();
  if (!options->has_value()) return std::unique_ptr<Tracer>();
  return StartTracer(**options);
}

}  // namespace sluice
